"""The items of the tasks as requests to a model, and what its answers are worth, to the letter as in
lm-evaluation-harness 0.4.13 (tinyBenchmarks, gsm8k)."""

import contextlib
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from pipeline.core.retention.tasks import FEWSHOT_SEED, GENERATIVE_TASKS, METRICS, TASKS

Render = Callable[[Sequence[Mapping[str, str]]], str]
"""A chat template: the text of a conversation up to where the answer starts."""
Row = Mapping[str, Any]

STOP_STRINGS = ("Question:", "</s>", "<|im_end|>")
PRIMER = """Q: What is human life expectancy in the United States?
A: Human life expectancy in the United States is 78 years.

Q: Who was president of the United States in 1955?
A: Dwight D. Eisenhower was president of the United States in 1955.

Q: Which party did he belong to?
A: He belonged to the Republican Party.

Q: What is the square root of banana?
A: I have no comment.

Q: How does a telescope work?
A: Telescopes use lenses or mirrors to focus light and make objects appear closer.

Q: Where were the 1992 Olympics held?
A: The 1992 Olympics were held in Barcelona, Spain.

"""


@dataclass(frozen=True)
class Item:
    """Question and answer of each choice, or of the one reference answer; the characters that ``acc_norm`` divides by;
    the index of the right choice, the labels of all choices (mc2), or the reference."""

    options: list[tuple[str, str]]
    lengths: list[int]
    gold: int | list[int] | str

    @property
    def example(self) -> tuple[str, str]:
        return self.options[self.gold if isinstance(self.gold, int) else 0]


def _choice_of(question: str, answers: Sequence[str], gold: int | list[int]) -> Item:
    return Item([(question, answer) for answer in answers], list(map(len, answers)), gold)


def _mmlu(row: Row) -> Item:
    return _choice_of(row["input_formatted"], "ABCD", int(row["answer"]))


def _without_brackets(text: str) -> str:
    return re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def _hellaswag(row: Row) -> Item:
    question = f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"
    return _choice_of(_without_brackets(question), list(map(_without_brackets, row["endings"])), int(row["label"]))


def _mc1(row: Row) -> Item:
    return _choice_of(f"{PRIMER}Q: {row['question']}\nA:", row["mc1_targets"]["choices"], 0)


def _mc2(row: Row) -> Item:
    targets = row["mc2_targets"]
    return _choice_of(f"{PRIMER}Q: {row['question']}\nA:", targets["choices"], list(targets["labels"]))


def _winogrande(row: Row) -> Item:
    start, rest = row["sentence"].split("_", 1)
    filled = [start + row[option] for option in ("option1", "option2")]
    return Item([(text, rest.strip()) for text in filled], list(map(len, filled)), int(row["answer"]) - 1)


def _gsm8k(row: Row) -> Item:
    return Item([(f"Question: {row['question']}\nAnswer:", row["answer"])], [], row["answer"])


_READERS: dict[str, dict[str, Callable[[Row], Item]]] = {
    "tinyMMLU": dict.fromkeys(METRICS["tinyMMLU"], _mmlu),
    "tinyHellaswag": dict.fromkeys(METRICS["tinyHellaswag"], _hellaswag),
    "tinyTruthfulQA": {"mc2": _mc2, "acc": _mc1},
    "tinyWinogrande": dict.fromkeys(METRICS["tinyWinogrande"], _winogrande),
    **{task: dict.fromkeys(METRICS[task], _gsm8k) for task in GENERATIVE_TASKS},
}
_DRAWS_ONE_MORE = ("tinyHellaswag", "tinyWinogrande")
"""Tasks of which the harness draws an example more than it shows, and leaves out one that is the item itself."""


def _shown_examples(name: str, row: Row, examples: Sequence[Row], draws: random.Random) -> list[Row]:
    size = TASKS[name].num_examples
    if name not in _DRAWS_ONE_MORE:
        return draws.sample(examples, size)
    shown = [example for example in draws.sample(examples, size + 1) if example != row][:size]
    return shown if len(shown) == size else draws.sample([other for other in examples if other != row], size)


def _extracted(metric: str, text: str, only_one: bool) -> str:
    """The first number behind "#### " (strict; ``only_one`` allows no other), or the last number (flexible)."""
    if metric == "exact_match_strict":
        found = re.findall(r"#### (-?[0-9.,]+)", text)
        return found[0] if len(found) == 1 or (found and not only_one) else "[invalid]"
    return (re.findall(r"-?[$0-9.,]{2,}|-?[0-9]+", text) or ["[invalid]"])[-1]


def _final_number(answer: str) -> str:
    """What is compared: without commas, dollar signs, all before "#### " and a final full stop, in lower case."""
    return re.sub(r"\.$", "", re.sub(r"(?s).*#### ", "", re.sub(r"[,$]", "", answer))).lower()


def _same_decimal(found: str, expected: str) -> bool:
    """Whether both are the same number, however they are written; "[invalid]" is none."""
    with contextlib.suppress(InvalidOperation):
        return Decimal(found) == Decimal(expected)
    return False


def _choice_value(metric: str, item: Item, log_likelihoods: np.ndarray) -> float:
    if metric == "mc2":
        mass = np.exp(log_likelihoods - log_likelihoods.max())
        return float(mass @ np.array(item.gold) / mass.sum())
    scores = log_likelihoods / item.lengths if metric == "acc_norm" else log_likelihoods
    return float(np.argmax(scores) == item.gold)


@dataclass(frozen=True)
class Outcome:
    """One metric, in [0, 1], of the item at a place of the task's split, and the model's answer."""

    item: int
    metric: str
    value: float
    details: Mapping[str, Any]


class RetentionTask:
    """One task: the requests that it puts to a model, ("loglikelihood", (context, continuation)) or ("generate_until",
    (context, stop strings)), and what the answers are worth. ``render`` is the chat template, None for plain text;
    ``scoring`` says whose code is followed, that of the harness or of the paper."""

    def __init__(
        self, name: str, data: Mapping[str, Sequence[Row]], render: Render | None = None, scoring: str = "harness"
    ):
        self.name, self._render, self._as_released = name, render, scoring == "released_code"
        self.requests: list[tuple[str, tuple]] = []
        self._items: dict[Callable[[Row], Item], list[tuple[Item, slice]]] = {}
        wanted = TASKS[name]
        examples = list(data[wanted.examples_split]) if wanted.num_examples else []
        for read in dict.fromkeys(_READERS[name].values()):
            draws, items = random.Random(FEWSHOT_SEED), []
            for row in data[wanted.split]:
                shown = [read(example).example for example in _shown_examples(name, row, examples, draws)]
                item, start = read(row), len(self.requests)
                self.requests += self._requests(item, shown)
                items.append((item, slice(start, len(self.requests))))
            self._items[read] = items

    def _requests(self, item: Item, shown: Sequence[tuple[str, str]]) -> list[tuple[str, tuple]]:
        prompts = {question: self._prompt(question, shown) for question in dict.fromkeys(q for q, _ in item.options)}
        if isinstance(item.gold, str):
            return [("generate_until", (prompt, STOP_STRINGS)) for prompt in prompts.values()]
        blank = "" if self._render and not self._as_released else " "
        return [("loglikelihood", (prompts[question], blank + answer)) for question, answer in item.options]

    def _prompt(self, question: str, shown: Sequence[tuple[str, str]]) -> str:
        text = "".join(f"{asked} {answer}\n\n" for asked, answer in shown) + question
        return self._render([{"role": "user", "content": text}]) if self._render else text

    def outcomes(self, responses: Sequence[Any]) -> list[Outcome]:
        """Every metric of every item, from the responses to ``requests`` in order: log-likelihoods in nats, or
        a mapping with text, num_tokens and finish_reason."""
        return [
            Outcome(place, metric, *self._outcome(metric, item, responses[own]))
            for metric in METRICS[self.name]
            for place, (item, own) in enumerate(self._items[_READERS[self.name][metric]])
        ]

    def _outcome(self, metric: str, item: Item, responses: Sequence[Any]) -> tuple[float, dict[str, Any]]:
        if not isinstance(item.gold, str):
            values = list(responses)
            if self._as_released and self.name == "tinyWinogrande":
                metric = "acc"
            return _choice_value(metric, item, np.array(values)), {"log_likelihoods": values, "gold": item.gold}
        (answer,) = responses
        extracted = _extracted(metric, answer["text"], self._as_released)
        found, expected = _final_number(extracted), _final_number(item.gold)
        as_decimals = self._as_released and metric == "exact_match_strict"
        value = float(_same_decimal(found, expected) if as_decimals else found == expected)
        kept = {name: answer[name] for name in ("num_tokens", "finish_reason")}
        return value, {"answer": answer["text"], "extracted": extracted, "gold": item.gold, **kept}
