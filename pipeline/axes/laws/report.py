"""Tables and figures of laws of one's own."""

from pipeline.axes.laws.figures import law_drawings
from pipeline.axes.laws.tables import law_tests_table, laws_table
from pipeline.report.axis_report import AxisReport
from pipeline.report.evaluations import ReportContext
from pipeline.report.figures.drawing import Drawing
from pipeline.report.table import Table


def _tables(context: ReportContext) -> list[Table | None]:
    params, names, conditions = context.params, context.names, context.conditions
    replicates = params.evaluate.bootstrap_replicates
    return [
        laws_table(context.metrics, names, conditions),
        law_tests_table(context.evaluations, names, conditions, params.seed, params.tests, replicates),
    ]


def _drawings(context: ReportContext) -> dict[str, Drawing]:
    return law_drawings(context.params, context.evaluations)


REPORT = AxisReport(
    "Laws that files describe: does the model answer as they say, also where it is asked in other words, or about "
    "values that it was not trained on?",
    (_tables,),
    _drawings,
)
