"""Tables of the transfer axes: 1, 10 and 20 of the paper, and what it does not show of the same evaluations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from pipeline.axes.registry import METRICS
from pipeline.config.evaluation import BASELINES
from pipeline.core.language.novelty_aggregate import CALL_METRICS
from pipeline.core.prompts.multiple_choice import LETTERS
from pipeline.report.evaluations import rows_of
from pipeline.report.tables.table import (
    DASH,
    Measure,
    Table,
    build_table,
    detailed_table,
    existing_measures,
    measure_of,
    number_range,
    with_note,
)

SUPPORT_SIZE, UNIQUE_FRACTION = measure_of("top_p_support_size"), measure_of("unique_fraction")
TOTAL_VARIATION = measure_of("mcq_total_variation", title="MCQ TV")
DISTINCT = {False: "distinct", True: "distinct_lexical"}
UTILITY = {False: "utility", True: "utility_stand_in"}
"""Metric by whether the evaluator is a stand-in for the benchmark's."""
OPEN = (
    measure_of("valid_rate", axis="open", title="Answered"),
    UNIQUE_FRACTION,
    measure_of("effective_answers_median"),
    measure_of("answer_entropy_nats"),
    measure_of("unique_fraction_case_folded"),
    measure_of("effective_answers_case_folded_median"),
)
PARSE_RATE, STRICT_VARIATION = measure_of("mcq_parse_rate"), measure_of("mcq_total_variation")
TOLERANT_VARIATION = measure_of("mcq_total_variation_tolerant")
MCQ = (PARSE_RATE, STRICT_VARIATION, measure_of("mcq_parse_rate_tolerant"), TOLERANT_VARIATION)
SHARES = tuple(measure_of(f"mcq_share_{letter.lower()}") for letter in LETTERS)
CALLS = tuple(measure_of(metric) for metric in CALL_METRICS)
STAND_IN_WARNING = (
    "A stand-in for the benchmark's classifier and reward model gave the NoveltyBench figures, for machines without "
    "their weights: they are not comparable with the paper's."
)
_PROMPT_INTERVALS = "Brackets: 95% bootstrap intervals over prompts."


def utility_measure(metrics: pd.DataFrame, split: str) -> Measure:
    """The benchmark's utility where any model has it, else the stand-in's, titled so."""
    found = rows_of(metrics, axis="novelty", family="")["metric"]
    stand_in = not (found == UTILITY[False]).any() and (found == UTILITY[True]).any()
    utility = measure_of(UTILITY[bool(stand_in)], split)
    return replace(utility, title=f"NoveltyBench {utility.title[0].lower()}{utility.title[1:]}")


def generative_summary(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Table | None:
    """Table 1; None where no axis of it was evaluated."""
    utility = utility_measure(metrics, "all")
    measures = [SUPPORT_SIZE, UNIQUE_FRACTION, TOTAL_VARIATION, utility]
    caption = "Table 1. Diversity and balance of what models generate beyond numbers"
    table = build_table("table1", caption, metrics, models, measures, conditions)
    if table.is_empty:
        return None
    floors = number_range([cell.floor for cell in table.existing_cells(TOTAL_VARIATION)], 3)
    warning = f" {STAND_IN_WARNING}" if utility.metric == UTILITY[True] else ""
    return with_note(
        table,
        "Support size: first-step tokens, most probable first, that hold 90% of the probability, mean over prompts. "
        "Unique output rate: distinct answers over all answers. MCQ TV: distance of the correct answer's position "
        f"from uniform over parseable questions; a uniform sampler scores {floors} at these sample sizes. "
        f"NoveltyBench utility: mean over the prompts of both splits.{warning} Brackets: 95% bootstrap "
        f"intervals. Bold: best of the row. {DASH}: undefined, because no question parsed.",
    )


def novelty_table(
    metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], stand_in: bool
) -> Table | None:
    """Table 10, of the benchmark's evaluators or of the stand-ins; None where these gave nothing."""
    measures = [
        measure_of(metric, split, title=f"{METRICS[metric].column_title}, {shown}")
        for metric in (DISTINCT[stand_in], UTILITY[stand_in])
        for split, shown in (("curated", "curated"), ("wildchat", "WildChat"))
    ]
    measures = existing_measures(metrics, measures)
    if not measures:
        return None
    caption = "Table 10. NoveltyBench by split"
    name = "table10"
    if stand_in:
        name, caption = "table10_stand_in", f"{caption}, with stand-in evaluators (not the paper's)"
        # Models of the benchmark's own evaluators are not missing here.
        scored = set(metrics.loc[metrics["metric"].isin({measure.metric for measure in measures}), "model"])
        models = {model: display_name for model, display_name in models.items() if model in scored}
    table = build_table(name, caption, metrics, models, measures, conditions)
    sizes = []
    for measure in {measure.split: measure for measure in measures}.values():
        size = number_range([cell.n for cell in table.existing_cells(measure)], 0)
        sizes.append(f"{size} prompts ({measure.split})")
    warning = f"{STAND_IN_WARNING} " if stand_in else ""
    return with_note(
        table,
        f"{warning}Distinct: mean number of classes among a prompt's responses. Utility: the patience-discounted "
        f"rating of the first response of each class, 0 to 10. {', '.join(sizes)}. {_PROMPT_INTERVALS} "
        "Bold: best of the row.",
    )


def mcq_table(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Table | None:
    """Table 20 with the tolerant parser beside the strict one; None where nothing was evaluated."""
    caption = "Table 20. Multiple-choice questions: parse rate and balance of the correct answer's position"
    table = build_table("table20", caption, metrics, models, MCQ, conditions)
    if table.is_empty:
        return None
    floors = []
    for measure, parser in ((STRICT_VARIATION, ""), (TOLERANT_VARIATION, ", tolerant")):
        for condition in conditions:
            cells = [cell for cell in table.column(measure, condition) if cell.n]
            if cells:
                floor, parsed = number_range([cell.floor for cell in cells], 3), number_range([c.n for c in cells], 0)
                floors.append(f"{condition} {floor} ({parsed} parsed{parser})")
    generations = number_range([cell.n for cell in table.existing_cells(PARSE_RATE)], 0)
    return with_note(
        table,
        f"{generations} generations per cell. TV: total variation distance from uniform over the questions that "
        f"parse. A uniform sampler of as many questions scores {'; '.join(floors) or 'n/a'}. Tolerant: also accepts "
        "Markdown, other labels of options and options of several lines. Brackets: 95% intervals (Wilson for rates, "
        f"bootstrap for TV). Bold: best of the row. {DASH}: undefined, because no question parsed.",
    )


def _saved(metrics: pd.DataFrame, models: Mapping[str, str]) -> str:
    """A sentence on the classifications and rewards spared over all models and conditions; empty if none are known."""
    rows = rows_of(metrics, axis="novelty", split="all")
    totals = rows[rows["model"].isin(models)].groupby("metric")["value"].sum()
    spared = [
        f"{1 - totals[calls] / totals[attempts]:.0%} of the {what}"
        for calls, attempts, what in (
            ("novelty_classifier_calls", "novelty_pairs", "pairs are not classified"),
            ("novelty_reward_calls", "novelty_responses", "responses are not rewarded"),
        )
        if totals.get(attempts, 0) > 0 and calls in totals
    ]
    return f" In all, {' and '.join(spared)}." if spared else ""


def transfer_tables(
    metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]
) -> dict[str, list[Table]]:
    """The tables that exist, by page section: "summary", "open", "novelty", "mcq"."""
    everything = (*conditions, *BASELINES)
    found = {
        "summary": [generative_summary(metrics, models, conditions)],
        "open": [
            detailed_table(
                "open_answers",
                "Answers to open-ended requests, baselines included",
                "Unique rate: where a condition has more samples than base, what as many as base has would give. "
                "Effective answers: exponential of the entropy of the answers' law, which is corrected for the "
                "number of samples (Chao, Wang and Jost 2013); the median over prompts, because where nearly all "
                "answers differ it is an extrapolation that would carry a mean. Case-folded: answers that differ in "
                f"case alone count as one. {_PROMPT_INTERVALS} Bold: best condition of the model.",
                metrics,
                models,
                OPEN,
                everything,
            ),
        ],
        "novelty": [
            novelty_table(metrics, models, conditions, stand_in=False),
            novelty_table(metrics, models, conditions, stand_in=True),
            detailed_table(
                "novelty_calls",
                "What NoveltyBench cost",
                "Compared: by the greedy rule, with the representative of each class. Left to the classifier: not "
                "decided by equal texts or the lexical rule. Classified and rewarded: texts that come again are taken "
                "from the cache; counted with a cache that is empty at first. Paper, summed over its runs: 194 hours "
                f"of generation, partition and reward.{_saved(metrics, models)}",
                metrics,
                models,
                CALLS,
                everything,
            ),
        ],
        "mcq": [
            mcq_table(metrics, models, conditions),
            detailed_table(
                "mcq_positions",
                "Position of the correct answer, strict parser",
                "Shares of the questions that parse. Brackets: 95% Wilson intervals.",
                metrics,
                models,
                SHARES,
                everything,
            ),
        ],
    }
    return {section: [table for table in tables if table is not None] for section, tables in found.items()}
