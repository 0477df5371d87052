"""What the report shows of an axis."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.report.evaluations import ReportContext
from pipeline.report.figures.drawing import Drawing
from pipeline.report.table import Table, TableSpec, specified


@dataclass(frozen=True)
class AxisReport:
    """What the report shows of an axis; ``tables`` are specifications, or functions where these cannot."""

    explanation: str
    tables: Sequence[TableSpec | Callable[[ReportContext], Sequence[Table | None]]]
    drawings: Callable[[ReportContext], dict[str, Drawing]] | None = None

    def make_tables(self, context: ReportContext) -> list[Table]:
        """Those of its tables that there is something to show in."""
        made: list[Table | None] = []
        for table in self.tables:
            made.extend([specified(table, context)] if isinstance(table, TableSpec) else table(context))
        return [table for table in made if table is not None]
