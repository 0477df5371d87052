"""Tables of structured sampling: 6 to 9, calibration, tails, the exact law, equal token budgets, and paired tests."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.axes.structured.tails import QUANTILE_ERRORS
from pipeline.config.evaluation import BASELINES
from pipeline.config.retention import TestsConfig
from pipeline.core.statistics.condition_tests import SSOT_PAIRS, TESTED, compare_conditions, method_pairs
from pipeline.report.evaluations import Evaluations, rows_of
from pipeline.report.tables.table import (
    DASH,
    ListTable,
    Measure,
    Table,
    build_table,
    detailed_table,
    existing_measures,
    interval_text,
    measure_of,
    number_range,
    probability_text,
    signed_text,
    with_note,
)

WASSERSTEIN = measure_of("wasserstein_1_normalised")
VALID_RATE = measure_of("valid_rate", bold=False)
"""Not tested, so nothing is bold."""
RATIO_TITLE = "× perfect"
STRUCTURED = (
    WASSERSTEIN,
    replace(WASSERSTEIN, title=f"W1 {RATIO_TITLE}", decimals=1, field="ratio"),
    measure_of("logit_kl_nats"),
    VALID_RATE,
)


def _with_ratio(metric: str) -> tuple[Measure, Measure]:
    """A metric, followed by its ratio to a perfect sampler."""
    return measure_of(metric), measure_of(metric, title=RATIO_TITLE, decimals=1, field="ratio")


CALIBRATION = (
    measure_of("pit_wasserstein_1_all_answers", title="Answers", field="n"),
    measure_of("pit_wasserstein_1", title="Valid", field="n"),
    *_with_ratio("pit_wasserstein_1_all_answers"),
    *_with_ratio("pit_wasserstein_1"),
    *_with_ratio("pit_ks"),
    *_with_ratio("energy_distance_normalised"),
    *_with_ratio("wasserstein_1_normalised"),
    measure_of("pit_rejected_share", bold=False),
    measure_of("pit_chi_square_rejected_share", bold=False),
)
TAILS = (
    measure_of(QUANTILE_ERRORS[0], title="Valid", field="n"),
    *(column for metric in QUANTILE_ERRORS for column in _with_ratio(metric)),
)
STREAMS = tuple(
    measure_of(metric, split, title=f"{METRICS[metric].column_title}, {shown}")
    for split, shown in SHORT_SPLIT_TITLES.items()
    for metric in ("stream_correlation", "stream_correlation_p")
)
EXACT = (
    measure_of("wasserstein_1_window_normalised", title="W1 in the window, sampled"),
    measure_of("exact_wasserstein_1_normalised", title="W1 in the window, computed"),
    measure_of("valid_rate", title="Valid rate, sampled"),
    measure_of("exact_support_rate", title="In the support, computed"),
    measure_of("logit_kl_rounded_law_nats"),
)
"""The model's exact law beside what sampling says of it."""
COMPARED = ("base", "soft", "ssot")
"""Conditions of Tables 8 and 9, of which soft may not be among the methods."""
TESTS_TABLE = "structured_tests"
TEST_TITLES = (
    "Split",
    "Metric",
    "Model",
    "Conditions",
    "Families",
    "Prompts",
    "Difference",
    "95% interval",
    "Verdict",
    "Adjusted p",
    "p",
    "p, these families",
    "Margin",
    "Perfect samplers",
)
BUDGET = (
    measure_of("wasserstein_1_normalised_at_budget"),
    measure_of("wasserstein_1_normalised_at_budget", title="Perfect sampler", field="floor"),
    measure_of("answers_at_budget", bold=False),
    measure_of("tokens_per_answer"),
    measure_of("valid_rate_at_budget"),
)
SPLIT_CAPTIONS = {"ood": "held-out (OOD) families", "unseen": "unseen parameters"}
_RATIO = f"{RATIO_TITLE}: times what a perfect sampler of as many answers scores (in brackets). "
_INTERVALS = "Brackets: 95% bootstrap intervals over families, prompts and, of distances of samples, the samples."
_UNDEFINED = f"{DASH}: undefined, because at least one family has no valid generation."


@dataclass(frozen=True)
class SplitTable:
    """A table for each split with a row per model and condition; the split takes the place of {split}.

    Attributes:
        needed: Metric without which there is no table; empty where any of the measures will do.
        baselines: Whether decoding baselines have rows.
    """

    name: str
    caption: str
    measures: tuple[Measure, ...]
    note: str
    needed: str = ""
    baselines: bool = True

    def tables(self, metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> list[Table]:
        """Those of the splits that it was evaluated on."""
        made = []
        for split, title in SPLIT_CAPTIONS.items():
            measures = existing_measures(metrics, _of_split(self.measures, split))
            if any(self.needed in ("", measure.metric) for measure in measures):
                shown = (*conditions, *BASELINES) if self.baselines else conditions
                name, caption = self.name.format(split=split), f"{self.caption}: {title}"
                made.append(detailed_table(name, caption, self.note, metrics, models, measures, shown))
        return [table for table in made if table is not None]


CALIBRATION_TABLE = SplitTable(
    "calibration_{split}",
    "Calibration with sample sizes and perfect samplers",
    CALIBRATION,
    f"{_RATIO}PIT: every answer replaced by the target's probability below it, uniform for a perfect sampler, so "
    "that W1 is finite for every family. Invalid counted: an invalid answer counts with distance 1, more than "
    "any valid one can; W1, KS and energy distance are of valid answers only. Rejected: share of prompts whose "
    "PITs are shown not to be uniform at 5% after Holm; it grows with the number of answers. "
    f"{_INTERVALS} Of shares: Wilson's. Bold: best condition of the model. {_UNDEFINED}",
    needed="pit_wasserstein_1",
)
TAILS_TABLE = SplitTable(
    "tails_{split}",
    "Errors of the samples' quantiles in the tails",
    TAILS,
    "Distance of the sample's quantile from the target's over Q95 − Q05, at the level that heads the column. "
    f"{_RATIO}Beyond one over the number of answers of a prompt the quantile is the most extreme answer. The errors of "
    f"levels, on the scale of probability, are in metrics.csv. {_INTERVALS} Bold: best condition of the model. "
    f"{_UNDEFINED}",
)
EXACT_TABLE = SplitTable(
    "exact_{split}",
    "The exact law beside the sampled figures",
    EXACT,
    "Computed: from the model's probabilities of digit prefixes, without sampling and with tokens that no "
    "plain decimal has left out. The middle of certified bounds; their ends are the metrics with _low and "
    "_high in metrics.csv. W1 here has samples and law clipped to the window between the target's 0.001 and "
    f"0.999 quantiles, as the paper's grid does. {_INTERVALS}",
    needed="exact_support_rate",
    baselines=False,
)
BUDGET_TABLE = SplitTable(
    "equal_token_budget_{split}",
    "Conditions at an equal token budget",
    BUDGET,
    "Of each condition, the answers within the same number of first generated tokens per prompt "
    "(evaluate.token_budget), reasoning included; of a condition that generated fewer, all answers. A cheaper "
    "condition gives more answers, and a perfect sampler of as many answers scores lower; its W1 stands beside each. "
    f"{_INTERVALS} Bold: best condition of the model. {_UNDEFINED}",
)


def _of_split(measures: Sequence[Measure], split: str) -> list[Measure]:
    return [replace(measure, split=split) for measure in measures]


def structured_table(
    name: str,
    caption: str,
    metrics: pd.DataFrame,
    split: str,
    models: Mapping[str, str],
    conditions: Sequence[str],
    measures: Sequence[Measure] = STRUCTURED,
) -> Table:
    """Tables 6 to 9 of the paper: sampled W1, logit KL and valid rate of one split."""
    table = build_table(name, caption, metrics, models, _of_split(measures, split), conditions)
    sizes = number_range([cell.n for cell in table.existing_cells(replace(WASSERSTEIN, split=split))], 0)
    return with_note(
        table,
        f"{_RATIO}W1 from {sizes} valid generations per cell; with fewer, a perfect sampler scores higher. Logit KL: "
        "mean across families, as the paper's caption says; the median is logit_kl_family_median_nats in metrics.csv. "
        f"{_INTERVALS} With one prompt per family, as in the paper's selection of unseen parameters, resampling "
        f"families is all there is. Bold: best of the row. {_UNDEFINED}",
    )


def streams_table(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Table | None:
    """Whether prompts share a seed stream; None where it was not tested."""
    return detailed_table(
        "streams",
        "Independence of the random streams of prompts",
        "Mean correlation of two prompts' answers (PITs) at the same sample index: 0 with independent streams, near 1 "
        "where all prompts share one. Brackets: 95% of the correlations under independence, around the value. p: by "
        f"shuffling samples within prompts, not adjusted; one in twenty is below 0.05 by chance. {DASH}: no pairs.",
        metrics,
        models,
        STREAMS,
        (*conditions, *BASELINES),
    )


def structured_tables(
    metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], ssot: bool
) -> list[Table]:
    """All tables of the axis in page order, without empty ones; 8 and 9 where SSOT is a condition or was evaluated."""
    shown = (metrics, models, conditions)
    tables: list[Table | None] = [
        structured_table(
            "table6", "Table 6. Structured sampling on held-out (OOD) families", metrics, "ood", *shown[1:]
        ),
        structured_table(
            "table7", "Table 7. Structured sampling with unseen parameters", metrics, "unseen", *shown[1:]
        ),
        *CALIBRATION_TABLE.tables(*shown),
        *TAILS_TABLE.tables(*shown),
        *EXACT_TABLE.tables(*shown),
    ]
    if ssot or len(rows_of(metrics, axis="structured", condition="ssot")):
        compared = [condition for condition in COMPARED if condition in (*conditions, "ssot")]
        for number, split in ((8, "ood"), (9, "unseen")):
            caption = f"Table {number}. String Seed of Thought (SSOT) beside {' and '.join(compared[:-1])}"
            caption = f"{caption}: {SPLIT_CAPTIONS[split]}"
            measures = [measure for measure in STRUCTURED if measure.metric != "logit_kl_nats"]
            tables.append(structured_table(f"table{number}", caption, metrics, split, models, compared, measures))
    tables += [*BUDGET_TABLE.tables(*shown), streams_table(*shown)]
    return [table for table in tables if table is not None and not table.is_empty]


def per_prompt_metrics(evaluations: Evaluations, models: Mapping[str, str], conditions: Sequence[str]) -> pd.DataFrame:
    """Columns model, condition, prompt_id, split, family and TESTED (NaN where a condition lacks one)."""
    names = ("prompt_id", "split", "family")
    return evaluations.stacked("structured", "per_prompt", names, models, conditions, optional=TESTED)


def perfect_sampler_scores(
    metrics: pd.DataFrame, axis: str = "structured", tested: Collection[str] = tuple(TESTED)
) -> dict[tuple[str, str, str, str], float]:
    """Floor of each of an axis's ``tested`` aggregates by (model, condition, split, metric)."""
    aggregates = rows_of(metrics, axis=axis, family="")
    chosen = aggregates[aggregates["metric"].isin(tested)]
    columns = ["model", "condition", "split", "metric"]
    return dict(zip(chosen[columns].itertuples(index=False, name=None), chosen["floor"], strict=True))


def margins_of(settings: TestsConfig) -> dict[str, float]:
    """Smallest difference that matters by metric of TESTED."""
    return {
        metric: settings.logit_kl_margin if metric == "logit_kl_nats" else settings.wasserstein_margin
        for metric in TESTED
    }


def structured_tests_table(
    evaluations: Evaluations,
    models: Mapping[str, str],
    conditions: Sequence[str],
    seed: int,
    settings: TestsConfig,
    replicates: int,
) -> ListTable | None:
    """Paired tests of ``method_pairs`` and SSOT_PAIRS; None without pairs."""
    per_prompt = per_prompt_metrics(evaluations, models, (*conditions, "ssot"))
    pairs, floors = (*method_pairs(conditions), *SSOT_PAIRS), perfect_sampler_scores(evaluations.metrics)
    tests = compare_conditions(per_prompt, pairs, floors, margins_of(settings), seed, settings.significance, replicates)
    if tests.empty:
        return None
    return ListTable(
        TESTS_TABLE,
        "Paired tests between conditions, structured sampling",
        TEST_TITLES,
        [test_row(row, models) for row in tests.itertuples()],
        4,
        tests.assign(axis="structured"),
        "Difference: of the figures in the tables (mean within family; across families the median, of logit KL the "
        "mean), first condition minus second; below 0 the first is closer to the target. Interval: 95% bootstrap of "
        "that difference, families and "
        "prompts resampled, the same for both; of one test without adjustment. p: two-sided test of the prompts' "
        "signed ranks, conditions swapped by family, so that it is of families like these; with 6 it is at least "
        "0.031. p, these families: swapped by prompt; it says nothing of other families and decides nothing. "
        f"Adjusted: over the splits of the same question (Holm), level {settings.significance:g}. Better or worse: "
        "adjusted p at most the level, and the whole interval beyond the margin; no relevant difference: the whole "
        "interval within it; cannot tell: neither. Perfect samplers: the same difference of perfect samplers of the "
        "two sizes, by which the margin is widened. One trained model per condition: the tests are of these models, "
        "not of the methods over training seeds.",
    )


def test_row(row: Any, models: Mapping[str, str]) -> list[str]:
    """Texts of a test under TEST_TITLES; ``row`` has COMPARISON_COLUMNS."""
    return [
        SHORT_SPLIT_TITLES.get(row.split, row.split),
        METRICS[row.metric].title,
        models[row.model],
        f"{row.condition} − {row.against}",
        str(row.families),
        str(row.prompts),
        signed_text(row.difference),
        interval_text(row.ci_low, row.ci_high),
        f"undefined: {row.undefined} prompts" if row.verdict == "undefined" else row.verdict,
        probability_text(row.p_adjusted),
        probability_text(row.p),
        probability_text(row.p_these_families),
        f"{row.margin:g}",
        signed_text(row.floor_difference),
    ]
