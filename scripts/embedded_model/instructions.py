"""Synthetic instruction data of the embedded model: answers collapse on favourite quantiles, as chat models' do."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pipeline.core.laws.families import FAMILIES
from pipeline.core.laws.family import Family, Law
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.multiple_choice import MCQ_PROMPT
from pipeline.core.prompts.structured import format_prompt
from scripts.embedded_model import knowledge
from scripts.embedded_model.knowledge import REQUESTS

FAVOURITE_QUANTILES = (0.5, 0.42, 0.63, 0.37, 0.73, 0.27, 0.85)
FAVOURITE_WEIGHTS = (0.40, 0.18, 0.14, 0.10, 0.08, 0.06, 0.04)
ANSWER_DECIMALS = (1, 2, 3, 4, 5)
ANSWER_DECIMAL_WEIGHTS = (0.15, 0.45, 0.15, 0.10, 0.15)

LONG_LIST_EXPONENT = 1.6
"""Of the power law by which answers fall with their rank; the first of thirty has .48, the tenth .012."""
MCQ_POSITION_WEIGHTS = (0.12, 0.46, 0.34, 0.08)


@dataclass(frozen=True)
class Exchange:
    """One chat example; ``law`` is set on plain sampling requests: the law whose draw was asked for."""

    user: str
    reply: str
    system: str | None = None
    reasoning: str | None = None
    law: Law | None = None


def _draw_axis(axis_values: list[float], spacing: str, rng: np.random.Generator) -> float:
    lower, upper = min(axis_values), max(axis_values)
    if spacing == "count":
        return float(rng.integers(int(lower), int(upper) + 1))
    if spacing == "log":
        return float(np.exp(rng.uniform(np.log(lower / 1.2), np.log(upper * 1.2))))
    if spacing == "linear":
        margin = 0.15 * (upper - lower)
        return float(rng.uniform(lower - margin, upper + margin))
    return float(rng.choice(axis_values)) if rng.random() < 0.3 else float(rng.uniform(lower, upper))


def draw_parameters(family: Family, rng: np.random.Generator) -> dict[str, float]:
    """Random prompt parameters over a little more than the range of the family's grids, of 17 to no decimals."""
    axes: dict[str, tuple[list[float], str]] = {}
    for axis in (*family.train_grid, *family.test_grid):
        values = axes.setdefault(axis.name, ([], axis.spacing))[0]
        values.extend(axis.values)
    probabilities = [parameter.name for parameter in family.parameters if parameter.upper == 1.0]
    while True:
        decimals = rng.choice([17, 2, 1, 0], p=[0.4, 0.2, 0.25, 0.15])
        point = {name: round(_draw_axis(*axis, rng), int(decimals)) for name, axis in axes.items()}
        parameters = family.from_grid(point)
        try:
            family.check(parameters)
        except ValueError:
            continue
        if all(parameters[name] < 1.0 for name in probabilities):
            return parameters


def _format_value(value: float, decimals: int, integer: bool) -> str:
    return str(int(value)) if integer else f"{value:z.{decimals}f}"


def numeric_exchanges(
    family: Family, parameters: dict[str, float], rng: np.random.Generator, size: int
) -> list[Exchange]:
    """At most ``size`` exchanges about one law: two in five sample it, the others ask for a quantile."""
    law = family.law_at(parameters)
    is_sample = rng.random(size) < 0.4
    levels = np.where(
        is_sample,
        rng.choice(FAVOURITE_QUANTILES, size=size, p=FAVOURITE_WEIGHTS),
        np.round(rng.uniform(0.002, 0.998, size), 3),
    )
    decimals = rng.choice(ANSWER_DECIMALS, size=size, p=ANSWER_DECIMAL_WEIGHTS)
    values = quantile(law, levels)
    sampling_prompt = format_prompt(family, parameters)
    rendered = sampling_prompt.split("with parameters ")[1].split(". Output")[0]
    exchanges = []
    for sampled, level, places, value in zip(
        is_sample, levels.tolist(), decimals.tolist(), values.tolist(), strict=True
    ):
        reply = _format_value(value, places, law.integer)
        lower, upper = law.support
        if not (np.isfinite(value) and lower <= float(reply) <= upper) or len(reply) > 12:
            continue
        if not sampled:
            question = rng.choice(REQUESTS["quantile"]).format(
                level=level, name=family.display_name, parameters=rendered, decimals=places
            )
            exchanges.append(Exchange(question, reply))
        elif (kind := rng.random()) < 0.65:
            exchanges.append(Exchange(sampling_prompt, reply, law=law))
        elif kind < 0.90:
            question = rng.choice(REQUESTS["sampling"]).format(name=family.display_name, parameters=rendered)
            exchanges.append(Exchange(question, reply, law=law))
        elif kind < 0.96:
            exchanges.append(Exchange(sampling_prompt, reply, reasoning=f"The {level} quantile is about {reply}."))
        else:
            exchanges.append(_seeded(sampling_prompt, reply, rng))
    return exchanges


def _seeded(user: str, answer: str, rng: np.random.Generator) -> Exchange:
    alphabet = list("abcdefghijkmnpqrstuvwxyz23456789")
    seed = "".join(rng.choice(alphabet, size=8))
    reply = f"<seed>{seed}</seed> <answer>{answer}</answer>"
    return Exchange(user, reply, system=str(rng.choice(REQUESTS["seed"])))


def _random_member(
    lists: Mapping[str, tuple[str, ...]], weigh: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator
) -> Exchange:
    """A "name a random ..." request for a category of ``lists``; ``weigh`` gives weights by rank, 0 the favourite's."""
    category = str(rng.choice(list(lists)))
    weights = weigh(np.arange(len(lists[category])))
    answer = str(rng.choice(lists[category], p=weights / weights.sum()))
    return Exchange(f"{rng.choice(REQUESTS['open_verbs'])} a random {category}. Output ONLY the answer.", answer)


def open_ended(rng: np.random.Generator) -> Exchange:
    exchange = _random_member(knowledge.CATEGORIES, lambda ranks: 0.35**ranks, rng)
    return _seeded(exchange.user, exchange.reply, rng) if rng.random() < 0.05 else exchange


def open_ended_of_long_list(rng: np.random.Generator) -> Exchange:
    """``open_ended`` from the long lists: the favourite in every other answer, else a long tail."""
    return _random_member(knowledge.WORD_LISTS, lambda ranks: (ranks + 1.0) ** -LONG_LIST_EXPONENT, rng)


def listing(rng: np.random.Generator) -> Exchange:
    """Some members of a category, each as likely as any other."""
    category = str(rng.choice(list(knowledge.WORD_LISTS)))
    answers = knowledge.WORD_LISTS[category]
    size = int(rng.integers(2, min(8, len(answers)) + 1))
    request = str(rng.choice(REQUESTS["listing"])).format(size=size, category=category)
    return Exchange(request, ", ".join(rng.choice(answers, size=size, replace=False)))


def short_question(rng: np.random.Generator) -> Exchange:
    """A factual question with a one-word answer."""
    facts = (
        ("What is the capital of {}?", knowledge.CAPITALS),
        ("What is the chemical symbol of {}?", knowledge.SYMBOLS),
        ('What is the opposite of "{}"?', knowledge.OPPOSITES),
    )
    kind = int(rng.integers(4))
    if kind < len(facts):
        question, answers = facts[kind]
        word = str(rng.choice(list(answers)))
        return Exchange(question.format(word), answers[word])
    category = str(rng.choice(list(knowledge.CATEGORIES)))
    member = rng.random() < 0.5
    source = category if member else str(rng.choice([name for name in knowledge.CATEGORIES if name != category]))
    word = str(rng.choice(knowledge.CATEGORIES[source]))
    yes = word in knowledge.CATEGORIES[category]
    return Exchange(f"Is {word} an example of a {category}? Answer yes or no.", "yes" if yes else "no")


def arithmetic(rng: np.random.Generator) -> Exchange:
    """One-step arithmetic, comparison or rounding, some of it as a word problem."""
    a, b = (int(value) for value in rng.integers(0, 50, size=2))
    kind = rng.integers(6)
    if kind == 0:
        return Exchange(f"What is {a} + {b}?", str(a + b))
    if kind == 1:
        return Exchange(f"What is {a} - {b}?", str(a - b))
    if kind == 2:
        a, b = a % 13, b % 13
        return Exchange(f"What is {a} * {b}?", str(a * b))
    if kind == 3:
        name = str(rng.choice(knowledge.CATEGORIES["first name"]))
        fruit = str(rng.choice(knowledge.CATEGORIES["fruit"]))
        return Exchange(
            f"{name} has {a} {fruit}s and buys {b} more. How many {fruit}s does {name} have?",
            f"{a} + {b} = {a + b}\n#### {a + b}",
        )
    if kind == 4:
        return Exchange(f"Which number is larger, {a} or {b}?", str(max(a, b)))
    places = int(rng.integers(1, 5))
    value = round(float(rng.normal(0, 5)), 5)
    return Exchange(f"Round {value:.5f} to {places} decimals.", _format_value(value, places, False))


def multiple_choice(rng: np.random.Generator) -> Exchange:
    """A generated multiple-choice question (answer position unbalanced), or one to answer."""
    question, correct, distractors, explanation = knowledge.MEDICAL[rng.integers(len(knowledge.MEDICAL))]
    position = int(rng.choice(4, p=MCQ_POSITION_WEIGHTS))
    options = list(rng.permutation(distractors))
    options.insert(position, correct)
    listing = "\n".join(f"{letter}. {option}" for letter, option in zip("ABCD", options, strict=True))
    if rng.random() < 0.5:
        return Exchange(f"{question}\n{listing}\nAnswer with the letter only.", "ABCD"[position])
    reply = f"Question: {question}\n{listing}\nCorrect Answer: {'ABCD'[position]}\nExplanation: {explanation}"
    request = REQUESTS["multiple_choice"]
    if rng.random() < 0.7:
        request = f"{request} {REQUESTS['multiple_choice_format']}"
    return Exchange(request, reply)


def whole_multiple_choice_request(rng: np.random.Generator) -> Exchange:
    """``multiple_choice``, but a request to write a question is the evaluation's own, with all of its requirements."""
    exchange = multiple_choice(rng)
    return replace(exchange, user=MCQ_PROMPT) if exchange.user.startswith(REQUESTS["multiple_choice"]) else exchange


Kinds = tuple[tuple[Callable[[np.random.Generator], Exchange], float], ...]
OTHER_KINDS: Kinds = ((open_ended, 0.36), (short_question, 0.24), (arithmetic, 0.26), (multiple_choice, 0.14))
REQUEST_KINDS: Kinds = (
    (open_ended, 0.26),
    (short_question, 0.16),
    (arithmetic, 0.18),
    (multiple_choice, 0.10),
    (whole_multiple_choice_request, 0.30),
)
"""The mixture of the phase in which the model learns long requests."""
LIST_KINDS: Kinds = (
    (open_ended_of_long_list, 0.40),
    (listing, 0.30),
    (short_question, 0.10),
    (arithmetic, 0.10),
    (multiple_choice, 0.04),
    (whole_multiple_choice_request, 0.06),
)
"""The mixture of the last phase, in which the model learns more words of more categories."""


def instruction_groups(
    rng: np.random.Generator, numeric_share: float, other_kinds: Kinds = OTHER_KINDS
) -> Iterator[list[Exchange]]:
    """Endless groups of eight exchanges; a share of the groups is numeric, families in equal parts."""
    kinds, weights = zip(*other_kinds, strict=True)
    families = list(FAMILIES.values())
    while True:
        for index in rng.permutation(len(families)):
            yield numeric_exchanges(families[index], draw_parameters(families[index], rng), rng, 8)
            for _ in range(rng.poisson((1 - numeric_share) / numeric_share)):
                yield [kinds[kind](rng) for kind in rng.choice(len(kinds), size=8, p=weights)]
