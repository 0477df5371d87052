"""The tasks that measure what a model keeps: what each holds, how it is scored, which metric counts.

Polo et al. (arXiv:2402.14992) chose 100 items of each of five benchmarks; the logic is lm-evaluation-harness 0.4.13's.
In all tasks l(c | x) is the sum of the log-probabilities of the continuation's tokens after its context, in nats.
``acc`` takes the choice with the largest l, ``acc_norm`` the largest l per character.

tinyMMLU: ``input_formatted`` holds five examples of the item's subject; choices are the letters A to D.
tinyHellaswag: 10 examples, drawn anew for every item from the training split; choices are four endings.
tinyTruthfulQA: a fixed primer of six questions. ``mc2`` (the harness's ``acc``) is the probability of the true answers
    over that of all answers, sum over true of exp l / sum over all of exp l (Lin et al., arXiv:2109.07958); ``acc`` is
    mc1, whether the one best answer of ``mc1_targets`` has the largest l.
tinyWinogrande: 5 examples. The choices are two contexts (the sentence up to the blank, filled in) and one continuation:
    partial evaluation, Trinh and Le (arXiv:1806.02847). ``acc_norm`` divides l by the characters of the context.
tinyGSM8k: 5 examples, greedy decoding up to "Question:". Strict: the number behind "#### ". Flexible: the last number.
gsm8k: the same over the whole test split of GSM8K (Cobbe et al., arXiv:2110.14168).
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
