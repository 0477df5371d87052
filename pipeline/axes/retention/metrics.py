"""The metrics of TinyBenchmarks and GSM8K."""

from functools import partial

from pipeline.axes.metric import OURS, PAPER, Metric

SECTION = f"{PAPER}, Section 4.2"
POLO = "Polo et al. 2024 (arXiv:2402.14992)"
IRT = "pipeline.core.retention.irt:estimate_performance"
ACCURACY = "pipeline.axes.retention.accuracy"
ANSWERS = "pipeline.axes.retention.answers"


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
    function=f"{ANSWERS}:answer_table",
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


METRICS = (*TINY_BENCHMARKS, *GENERATED_ANSWERS)
