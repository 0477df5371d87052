"""Every metric is in the registry, and what the registry says of a metric is complete and true."""

import dataclasses
import functools

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.registry import AXIS_TITLES, HEADLINES, METRICS, SPLITS, metric_sources
from pipeline.config import evaluation
from pipeline.axes.mcq import multiple_choice as mcq
from pipeline.core.language import novelty_aggregate, open_ended
from pipeline.core.prompts.text import TextPrompt
from pipeline.axes.retention import accuracy as retention
from pipeline.core.retention import answers, divergence, perplexity
from pipeline.core.retention.tasks import COLUMNS
from pipeline.core.structured import aggregate, fidelity, law_metrics
from pipeline.axes.metric import Metric
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

STRUCTURED = {
    *aggregate.HEADLINES,
    *aggregate.MEANS,
    *aggregate.MEDIANS,
    *aggregate.FAMILY_MEANS,
    *aggregate.PROMPT_MEDIANS,
    *aggregate.COMPANIONS,
    *fidelity.TAILS,
    *fidelity.UNIFORMITY_TESTS,
    "tokens_per_answer",
    "valid_rate",
    "stream_correlation",
    "stream_correlation_p",
}


def open_ended_names():
    prompt = TextPrompt("p", "open", "city", "Name a random city.")
    table = pd.DataFrame([open_ended.open_row(prompt, ["Rome", "Oslo", "rome"], 0, 3)])
    table["first_token_entropy_nats"] = 1.0
    support = pd.DataFrame({"prompt_id": "p", "threshold": open_ended.SUPPORT_THRESHOLDS, "support_size": 2})
    rows = open_ended.aggregate_open(table, support, seed=0, names=("x",), bootstrap_replicates=10)
    return {row["metric"] for row in rows}


def multiple_choice_names():
    outcomes = pd.DataFrame({"strict": ["A", "B"], "tolerant": ["A", "B"], "truncated": False})
    table = pd.DataFrame([mcq.prompt_row("p", outcomes)])
    return {row["metric"] for row in mcq.metric_rows(table, seed=0, names=("x",), replicates=10)}


def novelty_names():
    names = set()
    for kinds in (("deberta", "skywork"), ("lexical", "likelihood")):
        names.update(novelty_aggregate.metric_names(*kinds).values())
    counts = {key: 1 for _, key in novelty_aggregate.CALL_METRICS.values()}
    return names | {row["metric"] for row in novelty_aggregate.call_rows(counts, counts)}


def retention_names():
    result = retention.ColumnResult(
        np.ones(3),
        dict.fromkeys(retention.ESTIMATES, 0.5),
        dict.fromkeys(retention.ESTIMATES, np.ones(4)),
        np.zeros(2),
        np.ones(3),
    )
    columns = {column: result for column in COLUMNS}
    found = {row["metric"] for row in retention.metric_rows(columns, columns, "once")}
    table = answers.answer_table({0: {"answer": "", "num_tokens": 1, "finish_reason": "stop"}})
    rows = answers.metric_rows("tinyGSM8k", table, table, seed=0, model="m", replicates=10)
    return found | {row["metric"] for row in rows}


def perplexity_names():
    documents = pd.DataFrame({"slice": ["a", "a"], **{name: [1.0, 2.0] for name in perplexity.SUMMED}})
    return {
        row["metric"]
        for variant in perplexity.SUFFIXES
        for row in perplexity.metric_rows(
            documents, variant=variant, seed=0, names=("x",), replicates=10, compared=True
        )
    }


def divergence_names():
    sums = pd.DataFrame({"prompt_id": "p", "kind": "k", "direction": list(divergence.METRIC_NAMES)})
    sums = sums.assign(num_tokens=2, divergence_nats=0.5)
    return {row["metric"] for row in divergence.metric_rows(sums, seed=0, names=("x",), replicates=10)}


AXES = {
    "structured": lambda: STRUCTURED,
    "open": open_ended_names,
    "mcq": multiple_choice_names,
    "novelty": novelty_names,
    "retention": retention_names,
    "paloma": perplexity_names,
    "anchors": divergence_names,
    "laws": lambda: {*law_metrics.LAW_TESTED, *law_metrics.EXACT, law_metrics.VALID_RATE, law_metrics.REJECTED_SHARE},
}


@functools.cache
def names_of(axis):
    return frozenset(AXES[axis]())


@pytest.mark.parametrize("axis", AXES)
def test_every_metric_of_an_axis_is_defined(axis):
    names = names_of(axis)
    assert names and names <= set(METRICS)


def test_nothing_else_is_defined():
    """Those of questions are compared with what their stages write in tests/axes."""
    others = {name for name, metric in METRICS.items() if metric.axis not in evaluation.QUESTION_AXES}
    assert others == set().union(*map(names_of, AXES))


def incompleteness(name: str, metric: Metric) -> str:
    """What is wrong with a metric's declaration; empty where nothing is."""
    # What may be left out, and the numbers.
    optional = ("column", "attempts", "headline", "decimals", "formula_text")
    texts = {field.name: getattr(metric, field.name) for field in dataclasses.fields(metric)}
    checks = {
        "name": metric.name == name,
        "direction": metric.direction in ("lower", "higher", "neither"),
        "definition": metric.definition.endswith(".") and "  " not in metric.definition,
        "braces": "{" not in metric.definition + metric.formula_text,
        "title": not metric.title.endswith("."),
        "decimals": metric.decimals >= 0,
        "axis": metric.axis in evaluation.AXES,
        "attempts": not metric.attempts or METRICS[metric.attempts].axis == metric.axis,
        **{f"no {key}": bool(text.strip()) for key, text in texts.items() if key not in optional},
    }
    return ", ".join(check for check, holds in checks.items() if not holds)


def test_metrics_are_complete():
    # In loops: there are hundreds, and a test of its own for each takes longer than what it looks at.
    found = {name: incompleteness(name, metric) for name, metric in METRICS.items()}
    assert {name: text for name, text in found.items() if text} == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"definition": "half a sentence"}, "definition"),
        ({"title": " "}, "no title"),
        ({"axis": "none"}, "axis"),
        ({"direction": "up"}, "direction"),
        ({"attempts": "bits_per_byte"}, "attempts"),
    ],
)
def test_what_is_incomplete_is_noticed(change, said):
    metric = dataclasses.replace(METRICS["valid_rate"], **change)
    assert incompleteness("valid_rate", metric) == said


def test_titles_tell_metrics_apart():
    titles = [metric.title for metric in METRICS.values()]
    # The headline support size is also one of the 21 thresholds, under a title of its own.
    assert len(set(titles)) == len(titles)


def test_a_metric_is_computed_where_it_says():
    for name, metric in METRICS.items():
        (source,) = metric_sources(name)
        assert source["file"].startswith(("pipeline/core/", "pipeline/axes/")) and (ROOT / source["file"]).exists(), (
            name
        )
        assert source["says"].strip() and source["name"] == metric.function.partition(":")[2], name


def test_every_axis_has_headlines_in_an_order_of_their_own():
    assert list(HEADLINES) == list(AXIS_TITLES) == list(SPLITS) == list(evaluation.AXES)
    for axis, names in HEADLINES.items():
        assert [METRICS[name].headline for name in names] == list(range(1, len(names) + 1)), axis
    assert HEADLINES["structured"] == (
        "wasserstein_1_normalised",
        "pit_wasserstein_1_all_answers",
        "logit_kl_nats",
        "valid_rate",
    )
