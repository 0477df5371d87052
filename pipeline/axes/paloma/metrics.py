"""The metrics of text that is read: PALOMA."""

from collections.abc import Iterator
from functools import partial

from pipeline.axes.metric import OURS, PAPER, Metric
from pipeline.axes.paloma.perplexity import SUFFIXES

SECTION = f"{PAPER}, Section 4.2"
PERPLEXITY = "pipeline.axes.paloma.perplexity"


_fit = partial(
    Metric,
    axis="paloma",
    direction="lower",
    n="documents",
    source=f"{PAPER}, Appendix D.8",
    aggregate="ratio of sums over documents; split all: pooled over slices",
    undefined="value",
)


def _fit_to_text(suffix: str, note: str) -> Iterator[Metric]:
    """The metrics of one variant of the documents, with or without the model's BOS token in front."""
    tokens = f"exp({{}} / scored tokens){', no BOS token in front' if note else ''}"
    own, base = "sum of NLL", "(sum of own NLL - sum of base NLL)"
    yield _fit(
        name=f"perplexity{suffix}",
        title=f"Perplexity{note}",
        definition="Exponential of the mean negative log-likelihood of a token; compares within a tokenizer only.",
        formula_text=tokens.format(own),
        unit="1",
        function=f"{PERPLEXITY}:perplexity",
        decimals=2,
    )
    yield _fit(
        name=f"bits_per_byte{suffix}",
        title=f"Bits per byte{note}",
        definition="Negative log-likelihood in bits per UTF-8 byte of text.",
        formula_text="sum of NLL / (ln 2 * bytes)",
        unit="bits per byte",
        function=f"{PERPLEXITY}:bits_per_byte",
        decimals=4,
        headline=2 if note else 1,
    )
    yield _fit(
        name=f"perplexity_ratio{suffix}",
        title=f"Perplexity against base{note}",
        definition="Perplexity over that of base, on the same tokens.",
        formula_text=tokens.format(base),
        unit="1",
        source=OURS,
        function=f"{PERPLEXITY}:perplexity",
        decimals=3,
        column=f"Perplexity ratio{note}",
    )
    yield _fit(
        name=f"bits_per_byte_difference{suffix}",
        title=f"Bits per byte, change{note}",
        definition="Bits per byte less those of base, on the same documents.",
        formula_text=f"{base} / (ln 2 * bytes)",
        unit="bits per byte",
        source=OURS,
        function=f"{PERPLEXITY}:bits_per_byte",
        decimals=4,
        column=f"Bits-per-byte difference{note}",
    )


METRICS = tuple(
    metric
    for variant, suffix in SUFFIXES.items()
    for metric in _fit_to_text(suffix, "" if variant == "model" else " without BOS")
)
