"""Write data/retention: 100 items of our own for each tiny task, in the columns of the hub's data sets.

The items ask what the embedded model was taught (``pipeline.demo.embedded.knowledge``), so that it can answer
some of them; they stand in for the published items in the demo and in tests, and measure nothing else.
Each split of a task is a file of JSON lines. Run from the repository's root: python -m scripts.make_retention_items
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.artifacts.json_lines import write_json_lines
from pipeline.core.random_streams import random_stream
from pipeline.core.retention.tasks import EXPECTED_ITEMS
from pipeline.demo.embedded.knowledge import CAPITALS, CATEGORIES, MEDICAL, OPPOSITES, SYMBOLS

OUTPUT = Path(__file__).resolve().parents[1] / "data" / "retention"
EXAMPLES = 40
LETTERS = "ABCD"
Item = dict[str, Any]
Maker = Callable[[np.random.Generator], Item]

# Question, two sentences that answer it, and the facts.
FACTS = {
    "geography": ("What is the capital of {}?", ("The capital of {0} is {1}.", "{1} is the capital of {0}."), CAPITALS),
    "chemistry": (
        "What is the chemical symbol of {}?",
        ("The chemical symbol of {0} is {1}.", "{1} is the chemical symbol of {0}."),
        SYMBOLS,
    ),
    "vocabulary": (
        'What is the opposite of "{}"?',
        ('The opposite of "{0}" is "{1}".', '"{1}" is the opposite of "{0}".'),
        OPPOSITES,
    ),
}


def _fact(rng: np.random.Generator, num_distractors: int) -> tuple[str, str, str, list[str]]:
    """Subject, key of a random fact, its answer and other answers of the subject."""
    subject = str(rng.choice(list(FACTS)))
    facts = FACTS[subject][2]
    key = str(rng.choice(list(facts)))
    others = sorted(set(facts.values()) - {facts[key]})
    return subject, key, facts[key], [str(other) for other in rng.choice(others, num_distractors, replace=False)]


def _question(rng: np.random.Generator, subject: str | None = None) -> Item:
    """A question with four choices, of any subject or of one."""
    while True:
        if rng.random() < 0.4:
            found = "medicine"
            text, answer, distractors, _ = MEDICAL[rng.integers(len(MEDICAL))]
        else:
            found, key, answer, distractors = _fact(rng, 3)
            text = FACTS[found][0].format(key)
        if subject in (None, found):
            break
    position = int(rng.integers(4))
    choices = [str(choice) for choice in rng.permutation(distractors)]
    choices.insert(position, answer)
    return {"question": text, "subject": found, "choices": choices, "answer": position}


def _multiple_choice(item: Item, answered: bool) -> str:
    options = "\n".join(f"{letter}. {choice}" for letter, choice in zip(LETTERS, item["choices"], strict=True))
    return f"{item['question']}\n{options}\nAnswer:" + (f" {LETTERS[item['answer']]}" if answered else "")


def mmlu(rng: np.random.Generator) -> Item:
    """A question with its five examples in ``input_formatted``, as the hub's data set has it."""
    item = _question(rng)
    examples: list[Item] = []
    # One list of examples per subject, as in MMLU, less the question itself.
    shown = random_stream(0, "retention items", "mmlu examples", item["subject"])
    while len(examples) < 5:
        example = _question(shown, item["subject"])
        if example["question"] not in [item["question"], *(other["question"] for other in examples)]:
            examples.append(example)
    head = f"The following are multiple choice questions (with answers) about {item['subject']}."
    parts = [head, *(_multiple_choice(example, True) for example in examples), _multiple_choice(item, False)]
    return {**item, "input_formatted": "\n\n".join(parts)}


def hellaswag(rng: np.random.Generator) -> Item:
    """A question and the start of its answer; four endings, of which one is right."""
    subject, key, answer, wrong = _fact(rng, 3)
    position = int(rng.integers(4))
    words = [*wrong[:position], answer, *wrong[position:]]
    start, turn = FACTS[subject][0].format(key), "the answer is"
    return {
        "activity_label": subject.capitalize(),
        "ctx_a": start,
        "ctx_b": turn,
        "ctx": f"{start} {turn}",
        "endings": [f"{word}." for word in words],
        "label": str(position),
    }


def truthful_qa(rng: np.random.Generator) -> Item:
    """A fact in two true forms and four false ones; the first choice of mc1 is the best answer."""
    subject, key, answer, wrong = _fact(rng, 3)
    sentence, reverse = FACTS[subject][1]
    true = [form.format(key, answer) for form in (sentence, reverse)]
    false = [sentence.format(key, word) for word in wrong] + [reverse.format(key, wrong[0])]
    return {
        "question": FACTS[subject][0].format(key),
        "mc1_targets": {"choices": [true[0], *false], "labels": [1] + [0] * len(false)},
        "mc2_targets": {"choices": [*true, *false], "labels": [1] * len(true) + [0] * len(false)},
    }


def winogrande(rng: np.random.Generator) -> Item:
    """A question with a blank and its answer: only one of two words goes with the answer."""
    subject, key, answer, _ = _fact(rng, 1)
    facts = FACTS[subject][2]
    other = str(rng.choice([name for name in facts if facts[name] != answer]))
    options = [key, other]
    position = int(rng.integers(2))
    if position:
        options.reverse()
    sentence = f"{FACTS[subject][0].format('_')} {answer}"
    return {"sentence": sentence, "option1": options[0], "option2": options[1], "answer": str(position + 1)}


def gsm8k(rng: np.random.Generator) -> Item:
    """A one-step word problem; in half of them nothing is added, which is all that the embedded model can do."""
    name, fruit = (str(rng.choice(CATEGORIES[kind])) for kind in ("first name", "fruit"))
    first, second = int(rng.integers(10, 50)), int(rng.integers(1, 50)) if rng.random() < 0.5 else 0
    question = f"{name} has {first} {fruit}s and buys {second} more. How many {fruit}s does {name} have?"
    return {"question": question, "answer": f"{first} + {second} = {first + second}\n#### {first + second}"}


TASKS: dict[str, tuple[Maker, str, str | None]] = {
    "tinyMMLU": (mmlu, "test", "dev"),
    "tinyHellaswag": (hellaswag, "validation", "train"),
    "tinyTruthfulQA": (truthful_qa, "validation", None),
    "tinyWinogrande": (winogrande, "validation", "train"),
    "tinyGSM8k": (gsm8k, "test", "train"),
}
"""Task -> how an item is made, the split of the items and the split of the few-shot examples."""


def distinct_items(make: Maker, rng: np.random.Generator) -> Iterator[Item]:
    """Endless items, no two of them the same."""
    seen = set()
    while True:
        item = make(rng)
        if (text := repr(item)) not in seen:
            seen.add(text)
            yield item


def task_splits(task: str) -> dict[str, list[Item]]:
    """The splits of a task: 100 items, and examples that are not among them."""
    make, split, examples = TASKS[task]
    items = distinct_items(make, random_stream(0, "retention items", task))
    splits = {split: [next(items) for _ in range(EXPECTED_ITEMS)]}
    if examples:
        splits[examples] = [next(items) for _ in range(EXAMPLES)]
    return splits


if __name__ == "__main__":
    for task_name in TASKS:
        for split_name, rows in task_splits(task_name).items():
            write_json_lines(OUTPUT / task_name / f"{split_name}.jsonl", rows)
