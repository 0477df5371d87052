"""Names of NoveltyBench's figures (arXiv:2605.11845, Table 10), and how many calls are behind them."""

from collections.abc import Mapping

CALL_METRICS = {
    "novelty_pairs": ("classifier", "pairs"),
    "novelty_pairs_compared": ("classifier", "compared"),
    "novelty_pairs_classified": ("classifier", "classified"),
    "novelty_classifier_calls": ("classifier", "classified_unique"),
    "novelty_responses": ("reward", "responses"),
    "novelty_representatives": ("reward", "representatives"),
    "novelty_reward_calls": ("reward", "representatives_unique"),
}
"""Metric name to evaluator and count. Calls are those of a run with an empty cache."""


def metric_names(classifier: str, reward: str) -> dict[str, str]:
    """Reported names of the columns "distinct" and "utility": the paper's for the benchmark's own evaluators only.

    Args:
        classifier: Kind of the pair classifier, "deberta" or "lexical".
        reward: Kind of the reward model, "skywork" or "likelihood".
    """
    paper_classes = classifier == "deberta"
    return {
        "distinct": "distinct" if paper_classes else "distinct_lexical",
        "utility": "utility" if paper_classes and reward == "skywork" else "utility_stand_in",
    }


def call_figures(classifier: Mapping[str, int], reward: Mapping[str, int]) -> dict[str, float]:
    """The numbers of comparisons and evaluator calls behind all splits, by metric.

    Args:
        classifier: Counts of the partition (``PartitionCounts``).
        reward: Counts of the rewards: responses, representatives and representatives_unique.
    """
    counts = {"classifier": classifier, "reward": reward}
    return {metric: float(counts[source][key]) for metric, (source, key) in CALL_METRICS.items()}
