"""The tasks that measure what a model keeps: what each holds, how it is scored, which metric counts.

Polo et al. (arXiv:2402.14992) chose 100 items of each of five benchmarks. The task logic is that of
lm-evaluation-harness 0.4.13 (``pipeline.core.retention.items``). In all tasks l(c | x) is
the sum of the log-probabilities of the continuation's tokens after its context, in nats.

tinyMMLU
    No examples are added: the column ``input_formatted`` holds five of the item's subject. Choices are the
    letters A to D; ``acc`` takes the largest l, ``acc_norm`` the largest l per character of the choice, which is
    the same here, as every letter is one character.
tinyHellaswag
    10 examples, drawn anew for every item from the training split. Choices are four endings;
    ``acc_norm`` divides l by the ending's characters (not tokens or bytes; the blank before it not counted).
tinyTruthfulQA
    A fixed primer of six questions. ``mc2`` is the probability of the true answers over that of all answers,
    sum over true of exp l / sum over all of exp l (Lin et al., arXiv:2109.07958), not normalised by length; the
    harness calls it ``acc``. ``acc`` is mc1: whether the one best answer of ``mc1_targets`` has the largest l.
tinyWinogrande
    5 examples. The choices are two contexts (the sentence up to the blank, filled in) and one continuation
    (the rest): partial evaluation, Trinh and Le (arXiv:1806.02847). ``acc_norm`` divides l by the characters of
    the filled-in context, as the harness does, although what is scored is the continuation; ``acc`` does not.
tinyGSM8k
    5 examples, greedy decoding up to "Question:". Strict: the number behind "#### ". Flexible: the last
    number of the text. Either must equal the reference after commas, dollar signs and a final full stop are removed.
gsm8k
    The same over the whole test split of GSM8K (Cobbe et al., arXiv:2110.14168): its accuracy needs no item response
    theory, and enters no mean over tasks.
"""

from dataclasses import dataclass

FEWSHOT_SEED = 1234
"""Seed of the examples' draws: the harness's default."""
EXPECTED_ITEMS = 100
"""Items of a tiny task as published."""


@dataclass(frozen=True)
class RetentionData:
    """What a task needs from its data set.

    Attributes:
        hub_config: Configuration of the hub's data set; None for its only one.
        split: Split with the items.
        columns: Columns that the task reads.
        examples_split: Split that few-shot examples come from, there even where none are drawn; None without.
        num_examples: Few-shot examples per item.
        items: Items as published.
    """

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
"""Task -> its data."""

GENERATIVE_TASKS = ("tinyGSM8k", "gsm8k")
"""Tasks whose answers are generated, not chosen."""

METRICS: dict[str, tuple[str, ...]] = {
    "tinyMMLU": ("acc_norm", "acc"),
    "tinyHellaswag": ("acc_norm", "acc"),
    "tinyTruthfulQA": ("mc2", "acc"),
    "tinyWinogrande": ("acc_norm", "acc"),
    "tinyGSM8k": ("exact_match_strict", "exact_match_flexible"),
    "gsm8k": ("exact_match_strict", "exact_match_flexible"),
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
