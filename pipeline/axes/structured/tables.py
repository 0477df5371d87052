"""Tables of structured sampling: 6 to 9, calibration, the exact law, and paired tests."""

from pipeline.core.statistics.condition_tests import SSOT_PAIRS, TESTED, method_pairs
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.paired_tests import paired_tests_table
from pipeline.report.table import DASH, RATIO_TITLE, Column, Table, TableSpec, specified

SPLIT_CAPTIONS = {"ood": "held-out (OOD) families", "unseen": "unseen parameters"}
_RATIO = f"{RATIO_TITLE}: times what a perfect sampler of as many answers scores (in brackets)."
_UNDEFINED = f"{DASH}: undefined, because at least one family has no valid generation."


def _with_ratio(metric: str, split: str = "") -> tuple[Column, Column]:
    return Column(metric, split=split), Column(metric, "ratio", split=split)


def sampled_table(number: int, caption: str, split: str, *further: str) -> TableSpec:
    """Tables 6 to 9 of the paper: sampled W1, further metrics and valid rate of one split."""
    columns = [Column(metric, split=split) for metric in (*further, "ks_at_100_all", "valid_rate")]
    return TableSpec(
        f"table{number}",
        f"Table {number}. {caption}{SPLIT_CAPTIONS[split]}",
        (*_with_ratio("wasserstein_1_normalised", split), *columns, Column("valid_rate", "n", "Answers", split)),
        f"{_RATIO} W1 of the valid answers; logit KL: mean across families, as the paper's caption says. KS@100: "
        "share of requests with 90% readable answers that pass a Kolmogorov-Smirnov test; a perfect sampler's is 1. "
        "Intervals: "
        "bootstrap over families, prompts and, of distances of samples, the samples. With one prompt per family, as in "
        f"the paper's selection of unseen parameters, resampling families is all there is. {_UNDEFINED}",
    )


PAPER_TABLES = (
    sampled_table(6, "Structured sampling on ", "ood", "logit_kl_nats"),
    sampled_table(7, "Structured sampling with ", "unseen", "logit_kl_nats"),
)
SSOT_TABLES = [
    sampled_table(number, "String Seed of Thought (SSOT) beside base and soft: ", split)
    for number, split in ((8, "ood"), (9, "unseen"))
]
CALIBRATION_TABLE = TableSpec(
    "calibration",
    "Calibration with sample sizes and perfect samplers",
    (
        Column("pit_wasserstein_1_all_answers", "n", "Answers"),
        Column("pit_wasserstein_1", "n", "Valid"),
        *_with_ratio("pit_wasserstein_1_all_answers"),
        *_with_ratio("pit_wasserstein_1"),
    ),
    f"{_RATIO} PIT: every answer replaced by the target's probability below it, uniform for a perfect sampler, so that "
    "W1 is finite for every family. Invalid counted: an invalid answer counts with distance 1, more than any valid one "
    f"can; W1 is of valid answers only. {_UNDEFINED}",
    "Split",
)
EXACT_TABLE = TableSpec(
    "exact",
    "The exact law beside the sampled figures",
    (
        Column("wasserstein_1_normalised", title="W1, sampled"),
        Column("exact_wasserstein_1_normalised", title="W1 in the window, computed"),
        Column("valid_rate", title="Valid rate, sampled"),
        Column("exact_support_rate", title="In the support, computed"),
        Column("logit_kl_rounded_law_nats"),
    ),
    "Computed: from the model's probabilities of digit prefixes, without sampling and with tokens that no plain "
    "decimal has left out. The middle of certified bounds, whose ends are in per_prompt.parquet of the evaluation. The "
    "computed W1 has both laws clipped to the window between the target's 0.001 and 0.999 quantiles, as the paper's "
    "grid does; samples are not clipped.",
    "Split",
)


def structured_tables(context: ReportContext) -> list[Table | None]:
    """All tables of the axis in page order; 8 and 9 where SSOT was evaluated."""
    tables = [specified(spec, context, context.conditions) for spec in PAPER_TABLES]
    tables.append(specified(CALIBRATION_TABLE, context))
    if (context.metrics["metric"] == "exact_support_rate").any():
        tables.append(specified(EXACT_TABLE, context, context.conditions))
    if len(rows_of(context.metrics, axis="structured", condition="ssot")):
        # Soft may not be among the methods.
        compared = [condition for condition in ("base", "soft", "ssot") if condition in (*context.conditions, "ssot")]
        tables += [specified(spec, context, compared) for spec in SSOT_TABLES]
    tests = context.params.tests
    margins = {TESTED[0]: tests.wasserstein_margin, **dict.fromkeys(TESTED[1:], tests.logit_kl_margin)}
    pairs = (*method_pairs(context.conditions), *SSOT_PAIRS)
    caption = "Paired tests between conditions, structured sampling"
    return [
        *tables,
        paired_tests_table("structured_tests", caption, context, "structured", [*SPLIT_CAPTIONS], margins, pairs),
    ]
