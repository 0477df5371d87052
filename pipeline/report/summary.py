"""Tables 1 and 2 of the paper: what models generate beyond numbers, and what fine-tuning keeps."""

from pipeline.report.evaluations import ReportContext
from pipeline.report.retention import FORMAT_NOTES, WITHOUT_BOS, text_columns
from pipeline.report.table import Column, Table, TableSpec, specified

GENERATIVE_SUMMARY = TableSpec(
    "table1",
    "Table 1. Diversity and balance of what models generate beyond numbers",
    (
        *(Column(name) for name in ("top_p_support_size", "unique_fraction", "mcq_total_variation")),
        Column("mcq_total_variation", "floor", "Uniform sampler"),
        Column("utility", title="NoveltyBench utility"),
        Column("utility_stand_in", title="NoveltyBench utility (stand-in)"),
    ),
    "Support size: first-step tokens, most probable first, that hold 90% of the probability, mean over prompts. Unique "
    "output rate: distinct answers over all answers. TV: distance of the correct answer's position from uniform over "
    "parseable questions. NoveltyBench utility: mean over the prompts of both splits; a stand-in's is not comparable "
    "with the paper's.",
)


def retention_summary(context: ReportContext) -> Table | None:
    """Table 2."""
    columns = [
        *(Column("gp_irt"), Column("gp_irt", "change", "gp-IRT difference")),
        *(Column("accuracy"), Column("accuracy", "change", "Accuracy difference")),
        *text_columns("perplexity", "bits_per_byte"),
        *(Column(f"bits_per_byte{suffix}", "change") for suffix in ("", WITHOUT_BOS)),
    ]
    note = (
        "gp-IRT: accuracy on the whole benchmarks as estimated from 100 items each, mean over tasks with GSM8K counted "
        f"once; higher is better.{FORMAT_NOTES.get(context.task_format, '')} Perplexity "
        "per token and bits per byte over all slices; lower is better. Perplexity does not compare between "
        "tokenizers, bits per byte do. Differences: fine-tuned minus base on the same items and documents. Brackets: "
        "95% intervals over items or documents."
    )
    return specified(TableSpec("table2", "Table 2. What is kept: tasks and text", columns, note), context)
