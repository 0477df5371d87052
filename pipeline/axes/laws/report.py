"""The table of laws of one's own: each law by itself."""

from collections.abc import Sequence

import pandas as pd

from pipeline.artifacts.scores import LAW_EXACT_COLUMNS
from pipeline.axes.laws import SPLIT_TITLES
from pipeline.axes.laws.figures import law_drawings
from pipeline.axes.laws.law_metrics import CHANCE_GAP, KS, LAW_VALID_RATE, SAMPLED
from pipeline.axes.registry import METRICS
from pipeline.report.axis_report import AxisReport
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.table import Table, interval_text, number_text, records_table

KEYS = ["law", "split", "model", "condition"]
NOTE = (
    "TV: total variation of the valid answers' classes; W1: of valid numbers, in the target's own Q95 - Q05. Each is a "
    "mean over the law's requests, with the 95% interval for other requests and answers. Perfect: the same of draws "
    "from the law, as many as are valid. KS@100: share of requests for numbers with 90% readable answers that pass a "
    "Kolmogorov-Smirnov test; a perfect sampler's is 1. Exact: of the model's probabilities, without sampling; TV "
    "counts all other answers, W1 is given one of the law's strings. Gap: mean over options of |share - chance|. What "
    "is held out was not trained on."
)


def law_records(metrics: pd.DataFrame, models: Sequence[str], conditions: Sequence[str]) -> pd.DataFrame:
    """A row for every law, split, model and condition, with the figures beside its distance of SAMPLED."""
    rows = rows_of(metrics, axis="laws").rename(columns={"family": "law"})
    rows = rows[(rows["law"] != "") & rows["model"].isin(models) & rows["condition"].isin(conditions)]
    valid = rows[rows["metric"] == LAW_VALID_RATE].rename(columns={"value": "valid_rate", "n": "answers"})
    exact = rows.rename(columns={"value": "exact"}).assign(metric=rows["metric"].str.replace("law_exact_", "law_"))
    exact = exact[rows["metric"].isin(LAW_EXACT_COLUMNS)]
    table = rows[rows["metric"].isin(SAMPLED)].merge(valid[[*KEYS, "valid_rate", "answers"]], on=KEYS, how="left")
    for metric, name in ((KS[1], "ks_at_100"), (CHANCE_GAP, "gap")):
        own = rows[rows["metric"] == metric].rename(columns={"value": name})
        table = table.merge(own[[*KEYS, name]], on=KEYS, how="left")
    table = table.merge(exact[[*KEYS, "metric", "exact"]], on=[*KEYS, "metric"], how="left")
    orders = {
        "law": list(dict.fromkeys(table["law"])),
        "split": list(SPLIT_TITLES),
        "model": models,
        "condition": conditions,
    }
    return table.sort_values(KEYS, key=lambda column: column.map(list(orders[column.name]).index), ignore_index=True)


def _tables(context: ReportContext) -> list[Table | None]:
    columns = {
        "Law": lambda row: row.law,
        "Requests": lambda row: SPLIT_TITLES[row.split],
        "Model": lambda row: context.names[row.model],
        "Condition": lambda row: row.condition,
        "Answers": lambda row: str(row.answers),
        "Valid": lambda row: number_text(row.valid_rate, 3),
        "Distance": lambda row: METRICS[row.metric].column_title,
        "Value": lambda row: f"{number_text(row.value, 3)} {interval_text(row.ci_low, row.ci_high, 3, '')}",
        "Perfect": lambda row: number_text(row.floor, 3),
        "KS@100": lambda row: number_text(row.ks_at_100, 3),
        "Exact": lambda row: number_text(row.exact, 3),
        "Gap": lambda row: number_text(row.gap, 3),
    }
    records = law_records(context.metrics, list(context.names), context.conditions)
    return [records_table("laws", "Laws of one's own: answers against each law", records, columns, 4, NOTE)]


REPORT = AxisReport(
    "Laws that files describe: does the model answer as they say, also where it is asked in other words, or about "
    "values that it was not trained on?",
    (_tables,),
    law_drawings,
)
