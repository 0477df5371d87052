"""The metrics of TinyBenchmarks and GSM8K."""

from functools import partial

from pipeline.axes.metric import OURS, PAPER, Metric

SECTION = f"{PAPER}, Section 4.2"
_metric = partial(Metric, n="items", axis="retention", decimals=3, undefined="value")
_score = partial(
    _metric,
    unit="share correct",
    direction="higher",
    source=f"Polo et al. 2024 (arXiv:2402.14992); {SECTION}",
    aggregate="split all: mean over tasks, GSM8K once",
    function="pipeline.core.retention.irt:estimate_performance",
)
_answers = partial(_metric, direction="neither", source=OURS, aggregate="by task; its answers are generated")
_tokens = partial(_answers, unit="tokens", decimals=1, function="pipeline.axes.retention.evaluate:generated_answers")
_share = partial(_answers, unit="share of answers", function="pipeline.axes.retention.answers:has_derivation")
GP_IRT = (
    "Estimated accuracy on the whole benchmark from 100 items. IRT: accuracy, each item weighted by the part of the "
    "benchmark that it stands for; p-IRT: accuracy on the items, and what item response theory predicts for the "
    "benchmark's others, by their numbers."
)
GP_IRT_FORMULA, TWICE = "lambda * IRT + (1 - lambda) * p-IRT", "mean over columns, GSM8K twice"
ACCURACY = {"source": SECTION, "function": "pipeline.axes.retention.evaluate:column_values"}
PAPER_MEAN = {"source": f"{PAPER}, Table 21", "aggregate": TWICE, "column": "gp-IRT with GSM8K twice"}
TOKENS = "Mean number of tokens that an answer took the model to write, the one that ends it included."
DERIVATION = (
    "Share of answers with at least one step of arithmetic: an equation of two numbers or more and what they make "
    "(16 - 3 = 13), or a calculator annotation (<<16-3=13>>)."
)
METRICS = (
    _score("gp_irt", "gp-IRT", GP_IRT, GP_IRT_FORMULA, headline=1),
    _score("accuracy", "Accuracy", "Share of the items answered correctly.", headline=2, **ACCURACY),
    _score("gp_irt_paper_mean", "gp-IRT, the paper's mean", "Mean of gp-IRT over six columns.", TWICE, **PAPER_MEAN),
    _tokens("answer_tokens_mean", "Tokens of an answer", TOKENS, column="Tokens"),
    _share("answer_derivation_share", "Answers with a derivation", DERIVATION, column="With a derivation"),
)
