"""Tables 6, 7 and 21 in the paper's own layout: a row a model or task, the conditions of a metric side by side."""

from pathlib import Path

import pandas as pd

from pipeline.axes.registry import METRICS
from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.errors import ArtifactError
from pipeline.report.table import DASH

SAMPLED = ["wasserstein_1_normalised", "logit_kl_nats", "valid_rate"]
LAYOUTS = {
    "paper_table6": ("ood", SAMPLED, "model"),
    "paper_table7": ("unseen", SAMPLED, "model"),
    "paper_table21_models": ("all", ["gp_irt_paper_mean"], "model"),
    "paper_table21_tasks": (None, ["gp_irt"], "split"),
}
"""Split (None: all but "all"), metrics and rows of each."""
CONDITIONS = ["base", "soft", "hard"]


def paper_layout(metrics: pd.DataFrame, split: str | None, names: list[str], rows: str) -> pd.DataFrame:
    """A table of rows of metrics.csv, float64 by metric and condition: a task's row is the mean over models, and NaN
    where one of them has no value."""
    wanted = metrics["metric"].isin(names) & metrics["condition"].isin(CONDITIONS) & metrics["family"].isna()
    chosen = metrics[wanted & ((metrics["split"] == split) if split else (metrics["split"] != "all"))]
    order = pd.MultiIndex.from_product([names, CONDITIONS], names=["metric", "condition"])
    means = chosen.groupby([rows, *order.names], sort=False)["value"].agg(pd.Series.mean, skipna=False)
    return means.unstack(order.names).reindex(columns=order)


def main(metrics: Path) -> None:
    """Print the tables, and write them beside the others as CSV and LaTeX. Raises ArtifactError without any."""
    found = pd.read_csv(metrics)
    tables = {name: paper_layout(found, *layout) for name, layout in LAYOUTS.items()}
    if not any(map(len, tables.values())):
        raise ArtifactError(f"{metrics} has nothing of Tables 6, 7 and 21")
    for name, table in tables.items():
        if len(table):
            file = metrics.parent / "tables" / name
            table.to_csv(file.with_suffix(".csv"))
            titled = table.rename(columns=lambda metric: METRICS[metric].column_title, level="metric")
            titled.to_latex(file.with_suffix(".tex"), float_format="%.3f", na_rep=DASH, escape=True)
            print(f"{file}\n{titled.to_string(float_format='%.3f', na_rep=DASH)}\n")


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.report.paper_layout"))
