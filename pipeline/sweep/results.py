"""What all cells of a sweep found, and how the jobs of one run went, as tables."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pipeline.artifacts.storage import atomic_path, read_json
from pipeline.axes.registry import HEADLINES
from pipeline.report.ablations.runs import evaluation_roots
from pipeline.report.evaluations import read_evaluations
from pipeline.sweep.run import Record, read_record
from pipeline.sweep.settings import override_key

ESTIMATE_NOTE = "Estimates. {clock} Stages already in the shared cache may cost nothing, disk counts outputs once."


def override_columns(overrides: Sequence[str]) -> dict[str, str]:
    """Overrides as columns of a table."""
    return {override_key(item) or item: item.partition("=")[2] for item in overrides}


def gather(directory: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write ``summary.csv`` and ``metrics.csv`` of a sweep: one row per cell with its overrides, status and headline
    metrics; and the tidy metrics of all finished cells with their overrides in front.
    """
    summaries, parts = [], []
    headlines = {name for names in HEADLINES.values() for name in names}
    for record in [read_record(path) for path in sorted(directory.glob("*/record.json"))]:
        cell, columns = Path(record.cell), override_columns(record.overrides)
        how = {"status": record.status, "seconds": round(record.seconds, 1), "stage": record.stage, "log": record.log}
        row = {"cell": cell.name, **columns, **how}
        if (cell / "finished.json").exists():
            for metrics in filter(len, (read_evaluations(path).metrics for path in evaluation_roots(cell))):
                # Settings first, as the reader's key. The metrics name their model already.
                settings = {name: value for name, value in columns.items() if name not in metrics}
                parts.append(pd.DataFrame({"cell": cell.name, **settings}, index=metrics.index).join(metrics))
                for entry in metrics[(metrics["family"] == "") & metrics["metric"].isin(headlines)].itertuples():
                    row[f"{entry.model}/{entry.condition}/{entry.split}/{entry.metric}"] = entry.value
            for path in sorted(cell.glob("*/construction/*/summary.json")):
                row |= {f"{path.parent.name}/{key}": value for key, value in read_json(path).items()}
        summaries.append(row)
    summary, metrics = pd.DataFrame(summaries), pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    for name, table in (("summary", summary), ("metrics", metrics)):
        with atomic_path(directory / f"{name}.csv") as temporary:
            temporary.write_text(table.to_csv(index=False) if len(table.columns) else "")
    return summary, metrics


def run_table(records: Sequence[Record]) -> str:
    """The jobs of one run as text: those of a plan with what they would cost."""
    rows, planned = [], any(record.stages for record in records)
    for record in records:
        figures = {"seconds": f"{record.seconds:.0f}", "failed stage": record.stage, "log": record.log}
        if planned:
            figures = {
                "stages": f"{record.stages_done}/{record.stages}",
                "tokens": f"{record.tokens:.3g}",
                "GPU hours": f"{record.gpu_hours:.2f}",
                "disk GB": f"{record.disk_bytes / 1e9:.2f}",
            }
        name = Path(record.cell).name or "-"
        rows.append({"cell": name, "status": record.status, **override_columns(record.overrides), **figures})
    text = pd.DataFrame(rows).fillna("").to_string(index=False)
    if not planned:
        return text
    # Two jobs may be the same cell; it is paid once. What is finished has no cost.
    cells = {record.cell: record for record in records if record.cell and record.status != "finished"}.values()
    tokens, hours, disk = (sum(getattr(cell, key) for cell in cells) for key in ("tokens", "gpu_hours", "disk_bytes"))
    total = f"{len(cells)} cells to run or finish: {tokens:.3g} tokens, {hours:.2f} GPU hours, {disk / 1e9:.2f} GB"
    clock = next((record.clock for record in records if record.clock), "")
    return f"{text}\n{total}\n{ESTIMATE_NOTE.format(clock=clock)}"
