"""What a check found, on disk from its first row on: a report to paste, all figures, and rates for plans."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gpu.shapes import SHAPES
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
# The cases whose figures are rates.
RATED = ("train_paths", "train_packed", "score", "sample")


def _noted(row: Mapping[str, Any]) -> str:
    if row["status"] != "measured":
        return f"{row['status']}: {row['reason']}"
    found = [row["note"]] if row.get("note") else []
    if "parameters" in row:
        found.append(f"{row['parameters']:,} parameters")
    if "p_values" in row:
        found += [f"p {name} {value:.2g}" for name, value in row["p_values"].items()]
        found.append("noticed: " + ", ".join(f"{name} {value:.2f}" for name, value in row["power"].items()))
    if row.get("ratio") is not None:
        found.append(f"{row['ratio']:.2f} times as fast as without")
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
        "with one path each (train_paths) or 16 packed (train_packed); compile is the packed step.",
    ]
    return "\n".join(lines) + "\n"


def rates(environment: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What ``pipeline.estimates.rates`` reads, of the shapes whose cases were all measured; None where there is none.

    The two training steps differ in tokens: what they share is the step's time, the rest the tokens'.
    """
    models: dict[str, dict[str, Any]] = {}
    decoding_rows = None
    for shape in dict.fromkeys(row["shape"] for row in rows):
        own = {row["case"]: row for row in rows if row["shape"] == shape and row["status"] == "measured"}
        if not {"load", *RATED} <= own.keys():
            continue
        few, many = own["train_paths"], own["train_packed"]
        token = (many["seconds"] - few["seconds"]) / (many["tokens"] - few["tokens"])
        step = few["seconds"] - token * few["tokens"]
        if token <= 0 or step < 0:
            # A machine that was busy with something else, or a step that is all tokens.
            token, step = many["seconds"] / many["tokens"], 0.0
        decoding_rows = own["sample"]["rows"]
        models[shape] = {
            "num_parameters": own["load"]["parameters"],
            "experts": SHAPES[shape].has_experts,
            "training_step": step,
            "training_token": token,
            "reading_token": 1 / own["score"]["tokens_per_second"],
            "decoding_step": own["sample"]["decoding_step"],
        }
    if not models:
        return None
    versions = ", ".join(f"{name} {environment[name]}" for name in ("torch", "transformers"))
    measured = f"{environment['started'][:10]}, {versions}, commit {environment['commit'][:9]}"
    return {"device": environment["device"], "measured": measured, "decoding_rows": decoding_rows, "models": models}


class Report:
    """Rows of a check; ``directory`` has all of them after each ``add``."""

    def __init__(self, directory: Path, environment: Mapping[str, Any]):
        """Files of an earlier check are replaced by the first row."""
        self.directory, self.rows = directory, []
        commit = (git_revision() or {}).get("commit", "none")
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self.environment = dict(environment) | {"started": started, "commit": commit}
        (directory / "rates.json").unlink(missing_ok=True)
        self._write()

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep one row, on disk too."""
        self.rows.append(dict(row))
        self._write()

    def _write(self) -> None:
        write_json(self.directory / "check.json", {"environment": self.environment, "rows": self.rows})
        with atomic_path(self.directory / "report.md") as temporary:
            temporary.write_text(markdown(self.environment, self.rows))
        if (found := rates(self.environment, self.rows)) is not None:
            write_json(self.directory / "rates.json", found)
