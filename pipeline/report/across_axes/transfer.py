"""Table 1 of the paper: what models generate beyond numbers."""

from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.axes.novelty.report import STAND_IN_WARNING, UTILITY, utility_measure
from pipeline.report.tables.table import DASH, Table, build_table, measure_of, number_range, with_note

SUPPORT_SIZE, UNIQUE_FRACTION = measure_of("top_p_support_size"), measure_of("unique_fraction")
TOTAL_VARIATION = measure_of("mcq_total_variation", title="MCQ TV")


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
