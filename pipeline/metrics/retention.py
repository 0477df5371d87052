"""The metrics of what fine-tuning keeps: TinyBenchmarks and PALOMA."""

from collections.abc import Iterator
from functools import partial

from pipeline.core.retention.perplexity import SUFFIXES
from pipeline.metrics.metric import OURS, PAPER, Metric

SECTION = f"{PAPER}, Section 4.2"
POLO = "Polo et al. 2024 (arXiv:2402.14992)"
IRT = "pipeline.core.retention.irt:estimate_performance"
ACCURACY = "pipeline.core.retention.accuracy"
ANSWERS = "pipeline.core.retention.answers"
PERPLEXITY = "pipeline.core.retention.perplexity"

_score = partial(
    Metric,
    axis="retention",
    unit="share correct",
    direction="higher",
    n="items",
    aggregate="split all: mean over tasks, GSM8K once",
    decimals=3,
    undefined="value",
)
_difference = partial(
    _score, formula_text="own - base, on the same items", source=OURS, function=f"{ACCURACY}:metric_rows"
)

TINY_BENCHMARKS = (
    _score(
        name="gp_irt",
        title="gp-IRT",
        definition="Estimated accuracy on the whole benchmark from 100 items: IRT and p-IRT, mixed.",
        formula_text="lambda * IRT + (1 - lambda) * p-IRT",
        source=f"{POLO}; {SECTION}",
        function=IRT,
        headline=1,
    ),
    _score(
        name="p_irt",
        title="p-IRT",
        definition="Accuracy on the n items and the accuracy that item response theory predicts for the benchmark's "
        "others, by their numbers; w gives each sub-scenario the same say.",
        formula_text="(n / N) * mean over the items of w * correct "
        "+ (1 - n / N) * mean over the others of w * sigmoid(a . theta - b)",
        source=POLO,
        function=IRT,
    ),
    _score(
        name="irt",
        title="IRT",
        definition="Accuracy on the items, each weighted by the part of the benchmark that it was chosen to stand for.",
        formula_text="sum over items of v * correct",
        source=POLO,
        function=IRT,
    ),
    _score(
        name="accuracy",
        title="Accuracy",
        definition="Share of the 100 items answered correctly.",
        formula_text="correct / items",
        source=SECTION,
        function=f"{ACCURACY}:column_result",
        headline=2,
    ),
    _difference(
        name="gp_irt_difference",
        title="gp-IRT, change",
        definition="Change of gp-IRT against base.",
        column="gp-IRT difference",
    ),
    _difference(
        name="accuracy_difference",
        title="Accuracy, change",
        definition="Change of accuracy against base.",
        column="Accuracy difference",
    ),
    _score(
        name="gp_irt_paper_mean",
        title="gp-IRT, the paper's mean",
        definition="Mean of gp-IRT over six columns.",
        formula_text="mean over columns, GSM8K twice",
        source=f"{PAPER}, Table 21",
        aggregate="mean over six columns",
        function=f"{ACCURACY}:metric_rows",
        column="gp-IRT with GSM8K twice",
    ),
    _score(
        name="gp_irt_standard_error",
        title="gp-IRT, standard error",
        definition="Standard deviation of gp-IRT over bootstrap samples of the items.",
        formula_text="sd over resamples",
        source=OURS,
        direction="neither",
        function="pipeline.core.retention.irt:bootstrap_performance",
        column="Standard error",
    ),
    _score(
        name="gp_irt_published_error",
        title="gp-IRT, error of the method",
        definition="Mean absolute error over language models, as published.",
        formula_text="mean of |gp-IRT - accuracy on the whole benchmark|",
        source=POLO,
        direction="neither",
        aggregate="by task",
        function=f"{ACCURACY}:metric_rows",
        column="Published error",
    ),
)

_answers = partial(
    Metric,
    axis="retention",
    direction="neither",
    n="items",
    source=OURS,
    aggregate="by task; its answers are generated",
    function=f"{ANSWERS}:metric_rows",
    undefined="value",
)
_length = partial(_answers, unit="tokens", decimals=1)
_share = partial(_answers, unit="share of answers", decimals=3)

GENERATED_ANSWERS = (
    _length(
        name="answer_tokens_mean",
        title="Tokens of an answer, mean",
        definition="Mean number of tokens that an answer took the model to write, the one that ends it included.",
        formula_text="sum of tokens / answers",
        column="Tokens, mean",
    ),
    _length(
        name="answer_tokens_median",
        title="Tokens of an answer, median",
        definition="Median number of tokens that an answer took the model to write, the one that ends it included.",
        formula_text="median of tokens",
        column="Tokens, median",
    ),
    _share(
        name="answer_stop_share",
        title="Answers that end by themselves",
        definition="Share of answers that end with the model's terminator or at a stop string of the task, before the "
        "limit on their length.",
        formula_text="answers that stop / answers",
        column="End by themselves",
    ),
    _share(
        name="answer_derivation_share",
        title="Answers with a derivation",
        definition="Share of answers with at least one step of arithmetic: an equation of two numbers or more and what "
        "they make (16 - 3 = 13), or a calculator annotation (<<16-3=13>>).",
        formula_text="answers with a step / answers",
        function=f"{ANSWERS}:has_derivation",
        column="With a derivation",
    ),
    _length(
        name="answer_tokens_mean_difference",
        title="Tokens of an answer, change",
        definition="Change of the mean number of tokens against base.",
        formula_text="own - base, on the same items",
    ),
    _share(
        name="answer_derivation_share_difference",
        title="Answers with a derivation, change",
        definition="Change of the share of answers with a step of arithmetic against base.",
        formula_text="own - base, on the same items",
    ),
)

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
        function=f"{PERPLEXITY}:metric_rows",
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


PALOMA = tuple(
    metric
    for variant, suffix in SUFFIXES.items()
    for metric in _fit_to_text(suffix, "" if variant == "model" else " without BOS")
)

_anchor = partial(
    Metric,
    axis="anchors",
    unit="nats per token",
    direction="lower",
    n="instructions",
    source=OURS,
    aggregate="sum over replies / their tokens; splits are kinds of instructions, and all of them",
    function="pipeline.core.retention.divergence:per_token",
    decimals=4,
    undefined="instructions without a token",
)
ANCHORS = (
    _anchor(
        name="anchor_kl_nats",
        title="Divergence from base",
        definition="KL from the base checkpoint's law of the next token to the model's, over the full vocabulary, "
        "along the base checkpoint's replies to held-out instructions.",
        formula_text="mean over tokens of KL(base || model)",
        headline=1,
    ),
    _anchor(
        name="anchor_reverse_kl_nats",
        title="Reverse divergence from base",
        definition="The same the other way round, along the model's own replies.",
        formula_text="mean over tokens of KL(model || base)",
        headline=2,
    ),
)
RETENTION = (*TINY_BENCHMARKS, *GENERATED_ANSWERS, *PALOMA, *ANCHORS)
