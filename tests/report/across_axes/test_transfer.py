"""Tables 1, 10 and 20: stand-ins never beside the paper's evaluators, undefined TV, floors by condition."""

import math
from types import SimpleNamespace

import pandas as pd

from pipeline.axes.mcq.report import mcq_table
from pipeline.axes.novelty.report import novelty_table
from pipeline.axes.open.report import REPORT as OPEN
from pipeline.report.across_axes.transfer import generative_summary
from pipeline.report.evaluations import Evaluations
from pipeline.report.tables import table_text
from tests.report.conftest import CONDITIONS, metric_frame, metric_row

NAMES = {"a": "A", "b": "B"}


def context_of(metrics):
    """What an axis's report is made from: these metrics, and no files."""
    evaluations = Evaluations(metrics, pd.DataFrame(), {}, {})
    return SimpleNamespace(metrics=metrics, names=NAMES, conditions=CONDITIONS, evaluations=evaluations)


def novelty_rows(model, stand_in, condition="base"):
    distinct, utility = ("distinct_lexical", "utility_stand_in") if stand_in else ("distinct", "utility")
    return [
        metric_row("novelty", model, condition, split, metric, value, n=n)
        for split, n in (("curated", 100), ("wildchat", 1000), ("all", 1100))
        for metric, value in ((distinct, 4.0), (utility, 9.0 if stand_in else 3.0))
    ]


def test_stand_ins_and_the_papers_evaluators_share_no_table_and_no_column():
    metrics = metric_frame([*novelty_rows("a", stand_in=False), *novelty_rows("b", stand_in=True)])
    paper, stand_in = (novelty_table(metrics, NAMES, CONDITIONS, stand_in=flag) for flag in (False, True))
    assert (paper.name, stand_in.name) == ("table10", "table10_stand_in")
    assert {measure.metric for measure in paper.measures} == {"distinct", "utility"}
    assert {measure.metric for measure in stand_in.measures} == {"distinct_lexical", "utility_stand_in"}
    assert "9.0" not in table_text.to_markdown(paper) and "**3.0" not in table_text.to_markdown(stand_in)
    assert list(stand_in.models) == ["b"] and "not the paper's" in stand_in.caption
    assert "not comparable" in stand_in.note and "not comparable" not in paper.note
    assert "100 prompts (curated), 1000 prompts (wildchat)" in paper.note
    summary = generative_summary(metrics, NAMES, CONDITIONS)
    assert [m.metric for m in summary.measures if m.axis == "novelty"] == ["utility"]
    assert "9.00" not in table_text.to_markdown(summary)


def test_table_1_titles_the_stand_in():
    summary = generative_summary(metric_frame(novelty_rows("a", stand_in=True)), NAMES, CONDITIONS)
    assert summary.measures[-1].title == "NoveltyBench utility (stand-in)" and "not comparable" in summary.note
    assert "a base (mcq, open)" in summary.missing and "b base (mcq, novelty, open)" in summary.missing


def test_a_mixture_of_evaluators_is_split_over_both_tables():
    rows = [row for stand_in in (False, True) for row in novelty_rows("a", stand_in)]
    metrics = metric_frame([row for row in rows if row["metric"] in ("distinct", "utility_stand_in")])
    assert {m.metric for m in novelty_table(metrics, NAMES, CONDITIONS, stand_in=False).measures} == {"distinct"}
    assert {m.metric for m in novelty_table(metrics, NAMES, CONDITIONS, stand_in=True).measures} == {"utility_stand_in"}


def test_undefined_total_variation_says_of_how_many_none_parsed():
    rows = []
    for condition, parsed, floor in (("base", 900, 0.0231), ("soft", 0, math.nan), ("hard", 300, 0.04)):
        names = ("mcq", "a", condition, "mcq")
        rows.append(metric_row(*names, "mcq_parse_rate", parsed / 1000, n=1000))
        value = 0.1 if parsed else math.nan
        rows.append(metric_row(*names, "mcq_total_variation", value, n=parsed, floor=floor, undefined=int(not parsed)))
    table = mcq_table(metric_frame(rows), {"a": "A"}, CONDITIONS)
    line = table_text.to_markdown(table).splitlines()[4]
    assert "— (none of 1000 parsed)" in line
    assert "base 0.023 (900 parsed); hard 0.040 (300 parsed)" in table.note
    assert "1000 generations per cell" in table.note
    summary = generative_summary(metric_frame(rows), {"a": "A"}, CONDITIONS)
    assert "— (none of 1000 parsed)" in table_text.to_markdown(summary)


def test_open_answers_include_the_baselines_that_exist():
    rows = [
        metric_row("open", "a", condition, "open", "unique_fraction", value, n=102)
        for condition, value in (("batch", 0.9), ("base", 0.1), ("hard", 0.3))
    ]
    (table,) = OPEN.make_tables(context_of(metric_frame(rows)))
    assert table.conditions == ("base", "hard", "batch") and list(table.models) == ["a"]
    assert [measure.metric for measure in table.measures] == ["unique_fraction"]
