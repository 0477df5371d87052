"""Tables and figures of text that is read: PALOMA, Tables 22 and 23 and Figures 12 and 13 of the paper."""

from pipeline.report.axis_report import AxisReport
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.figures.drawing import Drawing
from pipeline.report.retention import WITHOUT_BOS, split_points, text_columns
from pipeline.report.table import Table, TableSpec, specified


def _tables(context: ReportContext) -> list[Table | None]:
    config, columns = context.params.paloma, text_columns("perplexity", "bits_per_byte")
    note = (
        f"All slices of {config.source} ({config.split}) together: summed negative log-likelihood over summed tokens "
        f"or bytes; windows of {config.window} tokens, stride {config.stride}. Documents begin with the model's BOS "
        "token where it has one; without BOS: the paper's variant, in which a document's first token is not scored, "
        "though its bytes count. Perplexity does not compare between tokenizers, bits per byte do."
    )
    unlike = "Perplexities of different tokenizers are unlike numbers: read bits per byte."
    by_slice = TableSpec("table23", "Table 23. PALOMA by slice", columns, unlike, "Slice")
    return [
        specified(TableSpec("table22", "Table 22. PALOMA by model", columns, note), context),
        specified(by_slice, context),
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
    return drawings


REPORT = AxisReport("Held-out text of several sources: how well the model predicts it.", (_tables,), _drawings)
