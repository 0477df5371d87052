"""Tables and figures of open-ended answers."""

from pipeline.axes.open.figures import open_drawings
from pipeline.axes.open.stated import open_stated_table
from pipeline.config.evaluation import BASELINES
from pipeline.report.axis_table import AxisReport
from pipeline.report.context import ReportContext
from pipeline.report.tables.table import ListTable, Table, detailed_table, measure_of

OPEN = (
    measure_of("valid_rate", axis="open", title="Answered"),
    measure_of("unique_fraction"),
    measure_of("effective_answers_median"),
    measure_of("answer_entropy_nats"),
    measure_of("unique_fraction_case_folded"),
    measure_of("effective_answers_case_folded_median"),
)


def _tables(context: ReportContext) -> list[Table | ListTable | None]:
    metrics, names, conditions = context.metrics, context.names, context.conditions
    return [
        detailed_table(
            "open_answers",
            "Answers to open-ended requests, baselines included",
            "Unique rate: where a condition has more samples than base, what as many as base has would give. "
            "Effective answers: exponential of the entropy of the answers' law, which is corrected for the "
            "number of samples (Chao, Wang and Jost 2013); the median over prompts, because where nearly all "
            "answers differ it is an extrapolation that would carry a mean. Case-folded: answers that differ in "
            "case alone count as one. Brackets: 95% bootstrap intervals over prompts. Bold: best condition of the "
            "model.",
            metrics,
            names,
            OPEN,
            (*conditions, *BASELINES),
        ),
        open_stated_table(context.evaluations, names, conditions),
    ]


REPORT = AxisReport(
    'Requests such as "Name a random city.": how many answers the model considers, and how many it gives.',
    (_tables,),
    open_drawings,
)
