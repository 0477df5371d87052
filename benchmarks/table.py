"""Figures as Markdown: a case in a line, the plain implementation beside ours."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

HEADINGS = ("case", "model", "plain, s", "ours, s", "limit, s", "ratio", "memory of plain and ours, MB")


def cell(value: Any) -> str:
    """A value as a table shows it: three digits, or whole numbers from 100 on."""
    if value is None or value == "":
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _seconds(row: Mapping[str, str] | None) -> str:
    if row is None or not row["seconds"]:
        return "" if row is None else row["note"]
    median, low, high = (cell(float(row[key])) for key in ("seconds", "min", "max"))
    return median if row["repeats"] == "1" else f"{median} [{low}, {high}]"


def _memory(rows: Sequence[Mapping[str, str]]) -> str:
    found = [row["peak_mb"] or row["retained_mb"] for row in rows[:2]]
    return " and ".join(cell(float(value)) for value in found) if all(found) else ""


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """What was measured where, and a line for each case: rows of the results, the plain implementation's first."""
    places = {f"{row['processor']}, commit {row['commit']}" for row in rows}
    loads = [float(row["load"]) for row in rows]
    lines = [
        f"{'; '.join(sorted(places))}. Load average before a case: {min(loads):g} to {max(loads):g}.",
        "",
        f"| {' | '.join(HEADINGS)} |",
        "|---" * len(HEADINGS) + "|",
    ]
    for _, group in groupby(rows, key=itemgetter("benchmark", "case", "model", "dtype", "paths")):
        plain, *others = group
        ours, limit = [*others, None, None][:2]
        name = plain["case"] + ", bfloat16" * (plain["dtype"] == "bfloat16")
        ratio = f"{float(ours['ratio']):.3g}" if ours else ""
        cells = (name, plain["model"], *map(_seconds, (plain, ours, limit)), ratio, _memory([plain, *others]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
