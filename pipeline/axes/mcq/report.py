"""Tables of multiple-choice questions (Table 20 of the paper)."""

from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.config.evaluation import BASELINES
from pipeline.core.prompts.multiple_choice import LETTERS
from pipeline.report.axis_table import AxisReport
from pipeline.report.context import ReportContext
from pipeline.report.tables.table import DASH, Table, build_table, detailed_table, measure_of, number_range, with_note

PARSE_RATE, STRICT_VARIATION = measure_of("mcq_parse_rate"), measure_of("mcq_total_variation")
TOLERANT_VARIATION = measure_of("mcq_total_variation_tolerant")
MCQ = (PARSE_RATE, STRICT_VARIATION, measure_of("mcq_parse_rate_tolerant"), TOLERANT_VARIATION)
SHARES = tuple(measure_of(f"mcq_share_{letter.lower()}") for letter in LETTERS)


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


def _tables(context: ReportContext) -> list[Table | None]:
    metrics, names, conditions = context.metrics, context.names, context.conditions
    return [
        mcq_table(metrics, names, conditions),
        detailed_table(
            "mcq_positions",
            "Position of the correct answer, strict parser",
            "Shares of the questions that parse. Brackets: 95% Wilson intervals.",
            metrics,
            names,
            SHARES,
            (*conditions, *BASELINES),
        ),
    ]


REPORT = AxisReport(
    "The model writes questions; the correct answer's position should be uniform over A to D.", (_tables,)
)
