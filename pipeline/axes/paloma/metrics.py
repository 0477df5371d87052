"""The metrics of text that is read: PALOMA."""

from functools import partial

from pipeline.axes.metric import PAPER, Metric

SUFFIXES = {"model": "", "none": "_without_bos"}
"""Suffix of the metrics' names by BOS variant: with or without the model's BOS token in front of a document."""
_paloma = partial(
    Metric,
    axis="paloma",
    direction="lower",
    n="documents",
    source=f"{PAPER}, Appendix D.8",
    aggregate="ratio of sums over documents; split all: pooled over slices",
    undefined="value",
)
_perplexity = partial(
    _paloma,
    definition="Exponential of the mean negative log-likelihood of a token; compares within a tokenizer only.",
    unit="1",
    function="pipeline.axes.paloma.evaluate:perplexity",
    decimals=2,
)
_bits = partial(
    _paloma,
    definition="Negative log-likelihood in bits per UTF-8 byte of text.",
    formula_text="sum of NLL / (ln 2 * bytes)",
    unit="bits per byte",
    function="pipeline.axes.paloma.evaluate:bits_per_byte",
    decimals=4,
)
FORMULA = "exp(sum of NLL / scored tokens)"
METRICS = (
    _perplexity(name="perplexity", title="Perplexity", formula_text=FORMULA),
    _bits(name="bits_per_byte", title="Bits per byte", headline=1),
    _perplexity(
        name="perplexity_without_bos", title="Perplexity without BOS", formula_text=f"{FORMULA}, no BOS token in front"
    ),
    _bits(name="bits_per_byte_without_bos", title="Bits per byte without BOS", headline=2),
)
