"""What a check found, on disk from its first row on: a report to paste and all figures."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.table import cell
from pipeline.artifacts.atomic import atomic_path
from pipeline.artifacts.storage import write_json
from pipeline.record.provenance import git_revision

COLUMNS = {
    "seconds": "seconds",
    "tokens_per_second": "tokens/s",
    "mfu": "MFU",
    "of_matmul": "of a matmul",
    "peak_gb": "GB",
    "planned_gb": "planned GB",
    "note": "note",
}


def _noted(row: Mapping[str, Any]) -> str:
    if row["status"] != "measured":
        return f"{row['status']}: {row['reason']}"
    found = [row["note"]] if row.get("note") else []
    if "parameters" in row:
        found.append(f"{row['parameters']:,} parameters")
    if "p_values" in row:
        found += [f"p {name} {value:.2g}" for name, value in row["p_values"].items()]
        found.append("noticed: " + ", ".join(f"{name} {value:.2f}" for name, value in row["power"].items()))
    return "; ".join(found)


def markdown(environment: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """The report."""
    lines = [f"# GPU check: {environment['device']}", ""]
    for key, value in environment.items():
        if isinstance(value, bool):
            value = "yes" if value else "no"
        shown = "; ".join(value) if isinstance(value, list) else cell(value)
        lines.append(f"- {key.replace('_', ' ')}: {shown or 'none'}")
    for shape in dict.fromkeys(row["shape"] for row in rows):
        lines += [
            "",
            f"## {shape}",
            "",
            f"| case | {' | '.join(COLUMNS.values())} |",
            "|---" * (len(COLUMNS) + 1) + "|",
        ]
        for row in rows:
            if row["shape"] == shape:
                cells = [cell(row.get(key)) for key in COLUMNS if key != "note"]
                lines.append(f"| {' | '.join([row['case'], *cells, _noted(row)])} |")
    lines += [
        "",
        "MFU: of the specified dense bfloat16 peak; GB: peak of the GPU's tensors. Training steps are of 32 prompts, "
        "with one path each (train_paths) or 16 packed (train_packed).",
    ]
    return "\n".join(lines) + "\n"


class Report:
    """Rows of a check; ``directory`` has all of them after each ``add``."""

    def __init__(self, directory: Path, environment: Mapping[str, Any]):
        """Files of an earlier check are replaced by the first row."""
        self.directory, self.rows = directory, []
        commit = (git_revision() or {}).get("commit", "none")
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self.environment = dict(environment) | {"started": started, "commit": commit}
        self._write()

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep one row, on disk too."""
        self.rows.append(dict(row))
        self._write()

    def _write(self) -> None:
        write_json(self.directory / "check.json", {"environment": self.environment, "rows": self.rows})
        with atomic_path(self.directory / "report.md") as temporary:
            temporary.write_text(markdown(self.environment, self.rows))
