"""The metrics of text that is read: PALOMA."""

from collections.abc import Iterator
from functools import partial

from pipeline.axes.metric import OURS, PAPER, Metric
from pipeline.axes.paloma.perplexity import SUFFIXES

_paloma = partial(
    Metric,
    axis="paloma",
    direction="lower",
    n="documents",
    source=f"{PAPER}, Appendix D.8",
    aggregate="ratio of sums over documents; split all: pooled over slices",
    undefined="value",
)
_bits = partial(_paloma, unit="bits per byte", function="pipeline.axes.paloma.perplexity:bits_per_byte", decimals=4)


def _of_variant(suffix: str, note: str) -> Iterator[Metric]:
    """The metrics of documents with or without the model's BOS token in front."""
    yield _paloma(
        name=f"perplexity{suffix}",
        title=f"Perplexity{note}",
        definition="Exponential of the mean negative log-likelihood of a token; compares within a tokenizer only.",
        formula_text=f"exp(sum of NLL / scored tokens){note and ', no BOS token in front'}",
        unit="1",
        function="pipeline.axes.paloma.perplexity:perplexity",
        decimals=2,
    )
    yield _bits(
        name=f"bits_per_byte{suffix}",
        title=f"Bits per byte{note}",
        definition="Negative log-likelihood in bits per UTF-8 byte of text.",
        formula_text="sum of NLL / (ln 2 * bytes)",
        headline=2 if note else 1,
    )
    yield _bits(
        name=f"bits_per_byte_difference{suffix}",
        title=f"Bits per byte, change{note}",
        definition="Bits per byte less those of base, on the same documents.",
        formula_text="(sum of own NLL - sum of base NLL) / (ln 2 * bytes)",
        source=OURS,
        column=f"Bits-per-byte difference{note}",
    )


METRICS = (*_of_variant(SUFFIXES["model"], ""), *_of_variant(SUFFIXES["none"], " without BOS"))
