"""The metrics of text that is read: PALOMA."""

from functools import partial

from pipeline.axes.metric import PAPER, Metric

SUFFIXES = {"model": "", "none": "_without_bos"}
"""Suffix of the metrics' names by BOS variant."""
_paloma = partial(
    Metric,
    axis="paloma",
    direction="lower",
    n="documents",
    source=f"{PAPER}, Appendix D.8",
    aggregate="ratio of sums over documents; split all: pooled over slices",
    undefined="value",
)


def _of_variant(suffix: str, note: str) -> tuple[Metric, Metric]:
    """The metrics of documents with or without the model's BOS token in front."""
    return (
        _paloma(
            name=f"perplexity{suffix}",
            title=f"Perplexity{note}",
            definition="Exponential of the mean negative log-likelihood of a token; compares within a tokenizer only.",
            formula_text=f"exp(sum of NLL / scored tokens){note and ', no BOS token in front'}",
            unit="1",
            function="pipeline.axes.paloma.evaluate:perplexity",
            decimals=2,
        ),
        _paloma(
            name=f"bits_per_byte{suffix}",
            title=f"Bits per byte{note}",
            definition="Negative log-likelihood in bits per UTF-8 byte of text.",
            formula_text="sum of NLL / (ln 2 * bytes)",
            unit="bits per byte",
            function="pipeline.axes.paloma.evaluate:bits_per_byte",
            decimals=4,
            headline=2 if note else 1,
        ),
    )


METRICS = (*_of_variant(SUFFIXES["model"], ""), *_of_variant(SUFFIXES["none"], " without BOS"))
