"""Tables and figures of text that is read: PALOMA, Tables 22 and 23 and Figures 12 and 13 of the paper."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.config.retention import PalomaConfig
from pipeline.report.axis_table import AxisReport
from pipeline.report.context import ReportContext
from pipeline.report.evaluations import rows_of
from pipeline.report.figures.drawing import Drawing
from pipeline.report.figures.retention import MARGIN_NOTE, difference_points, split_points
from pipeline.report.tables.retention import (
    BITS_PER_BYTE,
    PERPLEXITY,
    WITHOUT_BOS,
    average_table,
    paloma_measures,
    split_table,
    without_bos,
)
from pipeline.report.tables.retention_lists import one_variant, verdict_table
from pipeline.report.tables.table import Cell, CellKey, ListTable, Table, build_table, existing_measures, with_note

NO_BOS_REMARK = "no BOS to leave out"


def perplexity_table(
    metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], config: PalomaConfig
) -> Table | None:
    """Table 22: perplexity and bits per byte by model, BOS-less beside the default where both were run."""
    default = [PERPLEXITY, BITS_PER_BYTE]
    measures = existing_measures(metrics, [*default, *(without_bos(measure) for measure in default)])
    if not measures:
        return None
    table = build_table("table22", "Table 22. PALOMA by model", metrics, models, measures, conditions)
    variants = ""
    if any(measure.metric.endswith(WITHOUT_BOS) for measure in measures):
        table = _marked_without_bos(table)
        variants = (
            " Documents begin with the model's BOS token where it has one; without BOS: the paper's variant, "
            "in which a document's first token is not scored, though its bytes count. "
            "A model that has none has only one variant."
        )
    return with_note(
        table,
        f"All slices of {config.source} ({config.split}) together: summed negative log-likelihood over summed tokens "
        f"or bytes; windows of {config.window} tokens, stride {config.stride}.{variants} Perplexity does not compare "
        f"between tokenizers. Brackets: 95% bootstrap intervals over documents. Bold: best of the row and variant.",
    )


def _marked_without_bos(table: Table) -> Table:
    """Says of cells without a BOS-less variant, where the default exists, that the model has no BOS."""
    nothing = Cell(math.nan, 0, math.nan, math.nan, math.nan, 0, "", NO_BOS_REMARK)
    cells: dict[str, dict[CellKey, Cell | None]] = {model: dict(row) for model, row in table.cells.items()}
    for row in cells.values():
        for (axis, split, metric, condition), cell in row.items():
            default = row.get((axis, split, metric.removesuffix(WITHOUT_BOS), condition))
            if cell is None and default is not None:
                row[axis, split, metric, condition] = dataclasses.replace(nothing, provenance=default.provenance)
    return dataclasses.replace(table, cells=cells)


def _tables(context: ReportContext) -> list[Table | ListTable | None]:
    params, shown = context.params, (context.metrics, context.names, context.conditions)
    measures = paloma_measures(context.metrics)
    by_slice = "PALOMA bits per byte by model and slice, the figures of Figure 13"
    remark = " Perplexities of different tokenizers are unlike numbers: read bits per byte."
    return [
        perplexity_table(*shown, params.paloma),
        average_table("table23", *shown, "Table 23. PALOMA by slice", measures, "Slice", "documents", remark),
        split_table("paloma_by_slice", *shown, by_slice, measures[1], "documents"),
        verdict_table("paloma", context.tests("paloma"), *shown[:2], context.methods, params.tests.significance),
    ]


def _drawings(context: ReportContext) -> dict[str, Drawing]:
    names, conditions, own = context.names, context.conditions, rows_of(context.metrics, axis="paloma")
    drawings = {}
    for number, metric, title in ((12, "perplexity", "perplexity"), (13, "bits_per_byte", "bits per byte")):
        for suffix, variant in (("", ""), (WITHOUT_BOS, ", documents without the model's BOS token")):
            drawings[f"figure{number}{suffix}"] = Drawing(
                split_points,
                (own, names, conditions, metric + suffix, title, metric == "perplexity"),
                f"Figure {number}. PALOMA {title} by slice{variant}, with 95% bootstrap intervals over documents. "
                "Lower is better; each panel has its own axis.",
            )
    drawings["paloma_differences"] = Drawing(
        difference_points,
        (one_variant(context.tests("paloma")), names, conditions, "bits per byte, fine-tuned − base"),
        f"Paired differences from base by slice, with 95% intervals; below 0 is better. {MARGIN_NOTE}",
    )
    return drawings


REPORT = AxisReport("Held-out text of several sources: how well the model predicts it.", (_tables,), _drawings)
