"""The metrics of TinyBenchmarks and GSM8K."""

from functools import partial

from pipeline.axes.metric import OURS, PAPER, Metric

SECTION = f"{PAPER}, Section 4.2"
POLO = "Polo et al. 2024 (arXiv:2402.14992)"
ACCURACY = "pipeline.axes.retention.accuracy"
ANSWERS = "pipeline.axes.retention.answers"
_metric = partial(Metric, n="items", axis="retention", decimals=3, undefined="value")
_score = partial(
    _metric,
    unit="share correct",
    direction="higher",
    source=f"{POLO}; {SECTION}",
    aggregate="split all: mean over tasks, GSM8K once",
    function="pipeline.core.retention.irt:estimate_performance",
)
_difference = partial(
    _score, formula_text="own - base, on the same items", source=OURS, function=f"{ACCURACY}:metric_rows"
)
_answers = partial(_metric, direction="neither", source=OURS, aggregate="by task; its answers are generated")

METRICS = (
    _score(
        "gp_irt",
        "gp-IRT",
        "Estimated accuracy on the whole benchmark from 100 items. IRT: accuracy, each item weighted by the part of "
        "the benchmark that it stands for; p-IRT: accuracy on the items, and what item response theory predicts for "
        "the benchmark's others, by their numbers.",
        "lambda * IRT + (1 - lambda) * p-IRT",
        headline=1,
    ),
    _score(
        "accuracy",
        "Accuracy",
        "Share of the 100 items answered correctly.",
        "correct / items",
        source=SECTION,
        function=f"{ACCURACY}:column_result",
        headline=2,
    ),
    _difference("gp_irt_difference", "gp-IRT, change", "Change of gp-IRT against base.", column="gp-IRT difference"),
    _difference(
        "accuracy_difference", "Accuracy, change", "Change of accuracy against base.", column="Accuracy difference"
    ),
    _score(
        "gp_irt_paper_mean",
        "gp-IRT, the paper's mean",
        "Mean of gp-IRT over six columns.",
        "mean over columns, GSM8K twice",
        source=f"{PAPER}, Table 21",
        aggregate="mean over six columns",
        column="gp-IRT with GSM8K twice",
    ),
    _answers(
        "answer_tokens_mean",
        "Tokens of an answer",
        "Mean number of tokens that an answer took the model to write, the one that ends it included.",
        "sum of tokens / answers",
        unit="tokens",
        decimals=1,
        function="pipeline.axes.retention.evaluate:generated_answers",
        column="Tokens",
    ),
    _answers(
        "answer_derivation_share",
        "Answers with a derivation",
        "Share of answers with at least one step of arithmetic: an equation of two numbers or more and what they make "
        "(16 - 3 = 13), or a calculator annotation (<<16-3=13>>).",
        "answers with a step / answers",
        unit="share of answers",
        function=f"{ANSWERS}:has_derivation",
        column="With a derivation",
    ),
)
