"""The tasks that measure what a model keeps: 100 items of each of five benchmarks (Polo et al., arXiv:2402.14992), and
GSM8K's whole test split.

With l the sum of the log-probabilities of a continuation's tokens, in nats, ``acc`` is whether the right choice has the
largest l, ``acc_norm`` the largest l per character, and ``mc2`` the probability of the true answers over that of all
(Lin et al., arXiv:2109.07958). Winogrande's choices are two contexts of one continuation (arXiv:1806.02847). Answers to
GSM8K are decoded greedily; strict reads the number behind "#### ", flexible the last one.
"""

from dataclasses import dataclass

FEWSHOT_SEED = 1234
"""The harness's default."""
EXPECTED_ITEMS = 100
"""Of a tiny task as published."""


@dataclass(frozen=True)
class RetentionData:
    """What a task needs from its data set: the hub's configuration (None for its only one), the split with the items,
    the columns that are read, the split of the few-shot examples, how many per item, and the published items."""

    hub_config: str | None
    split: str
    columns: tuple[str, ...]
    examples_split: str | None = None
    num_examples: int = 0
    items: int = EXPECTED_ITEMS


TASKS: dict[str, RetentionData] = {
    "tinyMMLU": RetentionData("all", "test", ("input_formatted", "answer"), "dev"),
    "tinyHellaswag": RetentionData(
        None, "validation", ("activity_label", "ctx_a", "ctx_b", "endings", "label"), "train", 10
    ),
    "tinyTruthfulQA": RetentionData("multiple_choice", "validation", ("question", "mc1_targets", "mc2_targets")),
    "tinyWinogrande": RetentionData(
        "winogrande_xl", "validation", ("sentence", "option1", "option2", "answer"), "train", 5
    ),
    "tinyGSM8k": RetentionData("main", "test", ("question", "answer"), "train", 5),
    "gsm8k": RetentionData("main", "test", ("question", "answer"), "train", 5, 1319),
}

GENERATIVE_TASKS = ("tinyGSM8k", "gsm8k")
"""Tasks whose answers are generated, not chosen."""

METRICS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("tinyMMLU", "tinyHellaswag", "tinyWinogrande"), ("acc_norm", "acc")),
    "tinyTruthfulQA": ("mc2", "acc"),
    **dict.fromkeys(GENERATIVE_TASKS, ("exact_match_strict", "exact_match_flexible")),
}
"""Task -> its metrics, each a number in [0, 1] per item."""

COLUMNS: dict[str, tuple[str, str]] = {
    "tinyMMLU": ("tinyMMLU", "acc_norm"),
    "tinyHellaswag": ("tinyHellaswag", "acc_norm"),
    "tinyTruthfulQA": ("tinyTruthfulQA", "mc2"),
    "tinyWinogrande": ("tinyWinogrande", "acc_norm"),
    "tinyGSM8k (strict)": ("tinyGSM8k", "exact_match_strict"),
    "tinyGSM8k (flexible)": ("tinyGSM8k", "exact_match_flexible"),
}
"""The paper's six columns (Table 21) -> (task, metric)."""
WHOLE_COLUMNS: dict[str, tuple[str, str]] = {
    "GSM8K (strict)": ("gsm8k", "exact_match_strict"),
    "GSM8K (flexible)": ("gsm8k", "exact_match_flexible"),
}
"""Columns of whole benchmarks, which have an accuracy alone -> (task, metric)."""
ALL_COLUMNS = COLUMNS | WHOLE_COLUMNS
