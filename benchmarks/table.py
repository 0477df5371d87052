"""Benchmark rows as a Markdown table."""

from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = {
    "case": "case",
    "implementation": "implementation",
    "seconds": "seconds",
    "ratio": "times faster",
    "positions": "positions",
    "retained_mb": "retained MB",
    "peak_mb": "peak MB",
    "note": "note",
}


def cell(value: Any) -> str:
    """A value as a table shows it: three digits, or whole numbers from 100 on."""
    if value is None or value == "":
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of the columns that any row has; further figures of a row follow its note."""
    shown = [key for key in COLUMNS if any(row.get(key) not in (None, "") for row in rows)]
    extras = [{k: v for k, v in row.items() if k not in COLUMNS} for row in rows]
    if any(extras) and "note" not in shown:
        shown.append("note")
    lines = ["| " + " | ".join(COLUMNS[key] for key in shown) + " |", "|" + "---|" * len(shown)]
    for row, extra in zip(rows, extras, strict=True):
        cells = [cell(row.get(key)) for key in shown]
        if "note" in shown:
            further = ", ".join(f"{key} {cell(value)}" for key, value in extra.items() if value is not None)
            cells[shown.index("note")] = "; ".join(part for part in (cells[shown.index("note")], further) if part)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
