"""Write our two small sets of questions: ``python -m scripts.make_questions``.

The questions were written for this project around the model's own word lists. Nobody was asked: the counts of people's
answers are synthetic, drawn from laws of our own, so they show how the axes work and say nothing about people. The
favourites of these "people" are not the model's. Facts, which have a right answer and no people, are a file of their
own. Both are byte for byte the same on every run.
"""

import argparse
from pathlib import Path

import numpy as np

from pipeline.artifacts.json_lines import write_json_lines
from pipeline.core.random_streams import random_stream
from scripts.embedded_model import knowledge

PEOPLE = 100
OPEN = (
    *("animal", "bird", "city", "color", "fruit", "vegetable", "food", "dessert", "drink", "job", "hobby", "sport"),
    *("flower", "tree", "musical instrument", "vehicle", "gemstone", "planet", "season", "weekday", "month", "tool"),
    *("shape", "emotion", "coin side", "card suit"),
)
COUNTABLE = ("animal", "bird", "flower", "tree", "tool", "vehicle")
CAPITALS = ("France", "Italy", "Canada", "Australia", "Turkey")
SYMBOLS = ("iron", "gold", "tin")
OPPOSITES = ("hot", "early", "wet")
# The model has not been told these.
NEW_CAPITALS = {"Belgium": "Brussels", "Brazil": "Brasilia", "Romania": "Bucharest", "Thailand": "Bangkok"}
NEW_SYMBOLS = {"tungsten": "W", "mercury": "Hg", "nickel": "Ni"}
NEW_OPPOSITES = {"day": "night", "buy": "sell", "strong": "weak"}
TEXTS = {
    "capital": "What is the capital of {}?",
    "symbol": "What is the chemical symbol of {}?",
    "opposite": 'What is the opposite of "{}"?',
}
PRODUCTS = ((7, 8), (9, 12), (6, 7), (11, 12), (3, 4), (8, 12))
SUMS = ((17, 26), (38, 45), (9, 14), (27, 36))
MEMBERSHIPS = (
    ("dolphin", "fish"),
    ("dolphin", "mammal"),
    ("bat", "bird"),
    ("cricket", "sport"),
    ("carbon", "metal"),
    ("carrot", "fruit"),
)

CHOICES = ("fruit", "tool", "bird", "sport", "gemstone", "vehicle")


def _classes(answers: list[str], shares: np.ndarray, rng: np.random.Generator, countable: bool = False) -> dict:
    """Counts of PEOPLE people drawn from the shares; the last share is of answers in no class.

    Of ``countable`` answers that many gave, some are in the plural.
    """
    counts = rng.multinomial(PEOPLE, shares).tolist()
    classes = []
    for answer, count in sorted(zip(answers, counts[:-1], strict=True), key=lambda item: -item[1]):
        if count:
            plural = [f"{answer}s"] if countable and count > 4 and answer[-1] not in "hsxy" else []
            classes.append({"label": answer, "count": count, "members": [answer, *plural]})
    return {"classes": classes, "n": PEOPLE}


def _open(category: str, rng: np.random.Generator) -> dict:
    answers = [str(answer) for answer in rng.permutation(knowledge.CATEGORIES[category])]
    weights = 1 / np.arange(1, len(answers) + 1) ** rng.uniform(0.5, 2.0)
    shares = np.append(0.95 * weights / weights.sum(), 0.05)
    return {
        "prompt_id": f"open-{category.replace(' ', '-')}",
        "category": "open",
        "prompt": f"Name a random {category}. Output ONLY the answer.",
        "human": _classes(answers, shares, rng, category in COUNTABLE),
    }


def _factual(name: str, prompt: str, right: str, wrong: list[str], rng: np.random.Generator, **more) -> dict:
    share = rng.uniform(0.35, 0.97)
    others = rng.dirichlet(np.ones(len(wrong))) * (0.97 - share) if len(wrong) > 1 else np.array([0.97 - share])
    shares = np.concatenate([[share], others, [0.0]])
    shares[-1] = max(0.0, 1 - shares.sum())
    human = _classes([right, *wrong], shares, rng)
    return {"prompt_id": name, "category": "factual", "prompt": prompt, "gold": [right], "human": human, **more}


def _choice(category: str, rng: np.random.Generator) -> dict:
    """Which of four words is of the category; the others are of one other category each."""
    right = str(rng.choice(knowledge.CATEGORIES[category]))
    others = rng.choice([name for name in CHOICES if name != category], size=3, replace=False)
    wrong = [str(rng.choice(knowledge.CATEGORIES[name])) for name in others]
    options = [str(option) for option in rng.permutation([right, *wrong])]
    row = _factual(f"choice-{category}", f"Which of these is a {category}?", right, wrong, rng, options=options)
    return {**row, "category": "choice"}


def questions() -> list[dict]:
    """The rows of the file."""

    def rng(name: str) -> np.random.Generator:
        return random_stream(0, "questions", name)

    def others(values: dict[str, str], key: str) -> list[str]:
        names = [value for other, value in values.items() if other != key]
        return [str(name) for name in rng(f"others of {key}").choice(names, size=4, replace=False)]

    rows = [_open(category, rng(category)) for category in OPEN]
    for kind, chosen, values in (
        ("capital", CAPITALS, knowledge.CAPITALS),
        ("capital", NEW_CAPITALS, knowledge.CAPITALS | NEW_CAPITALS),
        ("symbol", SYMBOLS, knowledge.SYMBOLS),
        ("symbol", NEW_SYMBOLS, knowledge.SYMBOLS | NEW_SYMBOLS),
        ("opposite", OPPOSITES, knowledge.OPPOSITES),
        ("opposite", NEW_OPPOSITES, knowledge.OPPOSITES | NEW_OPPOSITES),
    ):
        for key in chosen:
            name, prompt = f"{kind}-{key.lower()}", TEXTS[kind].format(key)
            rows.append(_factual(name, prompt, values[key], others(values, key), rng(key)))
    for sign, pairs, apply in (("*", PRODUCTS, int.__mul__), ("+", SUMS, int.__add__)):
        for first, second in pairs:
            right, prompt = apply(first, second), f"What is {first} {sign} {second}?"
            wrong = [str(right + step) for step in (-10, -1, 1, 10)]
            name = f"{'product' if sign == '*' else 'sum'}-{first}-{second}"
            rows.append(_factual(name, prompt, str(right), wrong, rng(prompt)))
    for word, category in MEMBERSHIPS:
        right = "yes" if word in knowledge.CATEGORIES[category] else "no"
        prompt = f"Is {word} an example of a {category}? Answer yes or no."
        wrong = ["no" if right == "yes" else "yes"]
        rows.append(_factual(f"is-{word}-{category}", prompt, right, wrong, rng(prompt)))
    return rows + [_choice(category, rng(f"choice of {category}")) for category in CHOICES]


def facts() -> list[dict]:
    """Questions with a right answer: capitals, chemical symbols, opposites."""
    found = {"capital": knowledge.CAPITALS, "symbol": knowledge.SYMBOLS, "opposite": knowledge.OPPOSITES}
    return [
        {"prompt_id": f"{kind}-{key}", "category": kind, "prompt": TEXTS[kind].format(key), "gold": [value]}
        for kind, values in found.items()
        for key, value in values.items()
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("data/questions.jsonl"))
    parser.add_argument("--facts", type=Path, default=Path("data/facts.jsonl"))
    arguments = parser.parse_args()
    write_json_lines(arguments.output, questions())
    write_json_lines(arguments.facts, facts())
