"""Scores on public benchmarks: the file of all that was run, and a table and a figure with references."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy import stats

from pipeline import PROJECT
from pipeline.artifacts.atomic import atomic_entries, atomic_path
from pipeline.report.figures.drawing import COLORS, Drawing, draw, drawable
from pipeline.report.table import DASH, Cell, Table, interval_text
from pipeline.report.table_text import to_markdown, write_table_texts

COLUMNS = ("model", "condition", "seed", "experiment", "score", "n_readable", "source")
REFERENCES = PROJECT / "results" / "public" / "references.csv"
MOST_COLUMNS = 6  # experiments that a table shows beside each other; of more, the total alone
UNITS = {"failure_to_mix": "points of 100", "unpredictabench": "KS@100 (%)"}
NOTES = {
    "failure_to_mix": "At most 20 points an experiment. Named models: arXiv:2511.14630. Perfect sampler, "
    "fair choice and likeliest option: simulated with the benchmark's own script.",
    "unpredictabench": "KS@100: share of problems whose first 100 readable answers pass a Kolmogorov-Smirnov test. "
    "Named models: arXiv:2606.06622. Random baseline: the last 100 values of the ground truth.",
}
INTERVALS = "Brackets: 95% intervals over seeds."


def record(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows of COLUMNS to a file, in the place of those of the same model, condition, seed and experiment."""
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    if path.exists():
        table = pd.concat([pd.read_csv(path, keep_default_na=False), table])
    with atomic_path(path) as temporary:
        table.drop_duplicates(list(COLUMNS[:4]), keep="last").to_csv(temporary, index=False)


def compared(benchmark: str, results: pd.DataFrame) -> pd.DataFrame:
    """Mean score of results and references by model, condition and experiment, with half the width of a 95% interval
    (Student's t) over n seeds; those with a high total first."""
    known = pd.read_csv(REFERENCES).query("benchmark == @benchmark").rename(columns={"name": "model"})
    scores = pd.concat([known.assign(condition="", ours=False), results.assign(ours=True)])
    keys = ["model", "condition", "ours", "experiment"]
    table = scores.groupby(keys, sort=False)["score"].agg(["mean", "std", "size"]).reset_index()
    # A single seed has no standard deviation, and no interval.
    reach = stats.t.ppf(0.975, table["size"] - 1) * table["std"] / table["size"] ** 0.5
    table = table.rename(columns={"mean": "score", "size": "n"}).assign(reach=reach).drop(columns="std")
    totals = table[table["experiment"] == "total"].set_index(keys[:2])["score"]
    order = table[keys[:2]].apply(tuple, axis=1).map(totals)
    return table.assign(order=order).sort_values("order", ascending=False, kind="stable").drop(columns="order")


def make_table(benchmark: str, frame: pd.DataFrame) -> Table:
    """A row for each model and condition."""
    experiments = sorted(frame["experiment"].unique())
    experiments = experiments if len(experiments) <= MOST_COLUMNS else ["total"]
    rows = []
    for (model, condition), own in frame.groupby(["model", "condition"], sort=False):
        found = own.set_index("experiment")
        rows.append([model, condition or DASH, *(_cell(found, name) for name in experiments)])
    header = ["Model", "Condition", *experiments]
    caption = f"{benchmark}, {UNITS[benchmark]}: ours beside references"
    return Table(benchmark, caption, header, rows, 2, frame, f"{NOTES[benchmark]} {INTERVALS}")


def _cell(found: pd.DataFrame, experiment: str) -> Cell:
    if experiment not in found.index:
        return Cell(DASH)
    row = found.loc[experiment]
    low, high = row["score"] - row["reach"], row["score"] + row["reach"]
    return Cell(f"{row['score']:.1f}", interval_text(low, high, 1, "") if math.isfinite(low) else "")


def total_figure(frame: pd.DataFrame, unit: str) -> Figure:
    """Totals as points, ours in colour, with their intervals."""
    totals = frame[frame["experiment"] == "total"].iloc[::-1]
    figure, panel = plt.subplots(figsize=(5.6, 0.8 + 0.2 * len(totals)), layout="constrained")
    for place, row in enumerate(totals.itertuples()):
        color = COLORS["soft" if row.ours else "base"]
        panel.errorbar(row.score, place, xerr=None if math.isnan(row.reach) else row.reach, fmt="o", color=color)
    names = [drawable(f"{row.model} {row.condition}".strip(), 40) for row in totals.itertuples()]
    panel.set_yticks(range(len(names)), names)
    panel.set_xlim(0, 100)
    panel.set_xlabel(f"Total, {unit}")
    return figure


def write(benchmark: str, results: Path, directory: Path) -> None:
    """Write BENCHMARK.csv, .md, .tex, .png and .pdf into a directory, and print the table."""
    frame = compared(benchmark, pd.read_csv(results, keep_default_na=False))
    table = make_table(benchmark, frame)
    with atomic_entries(directory) as new:
        write_table_texts(table, new)
        draw(benchmark, Drawing(total_figure, (frame, UNITS[benchmark]), ""), new)
    print(to_markdown(table))
