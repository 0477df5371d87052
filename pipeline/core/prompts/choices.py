"""Requests for random choices in words: between options that a template names, with chances stated or alike."""

import itertools
import string
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np

from pipeline.core.laws.finite_law import FiniteLaw, categorical_law
from pipeline.core.prompts.structured import WORDING, template_fields
from pipeline.errors import DomainError

T = TypeVar("T")
CHANCES: dict[str, Callable[[int, int], str]] = {
    "percent": lambda weight, total: f"{100 * weight / total:.4g}%",
    "decimal": lambda weight, total: f"{weight / total:.4g}",
    "ratio": lambda weight, total: f"{weight} in {total}",
    "fraction": lambda weight, total: f"{weight}/{total}",
}
"""How the chance of an option with a weight out of a total is stated."""
TOTALS = {
    "percent": (100, 100, 20, 20, 10, 4),
    "decimal": (100, 20, 10, 10),
    "ratio": (4, 5, 6, 8, 10, 12, 20, 100),
    "fraction": (2, 3, 4, 5, 6, 8, 10, 12),
    "counts": (6, 8, 10, 12, 20, 30, 100, 1000),
    "weight": (10, 20, 50, 100, 250, 1000),
}
"""Totals that weights are parts of, one of them drawn; twentieths, for example, are percentages in steps of five."""
FIELDS = {
    "two": ("a", "b", "chance_a", "chance_b", "percent_a", "percent_b", "weight_a", "weight_b", "odds"),
    "any": ("options", "weighted", "counts", "coins"),
    "draws": ("draws", "times", "separator"),
}
"""What a template can name: two options, any number of them or several coins, and how often to draw."""
STATED = (*FIELDS["two"][2:], "weighted", "counts", "coins")
"""Fields that tell chances: what a template says of two options beside their names, and lists that have chances."""
SEPARATORS = {"a comma": ", ", "a space": " ", "a semicolon": "; ", "a slash": " / "}
NUMBERS = {2: ("two", "2"), 3: ("three", "3")}
TIMES = {2: ("twice", "two times"), 3: ("three times", "3 times")}
PATTERNS = ("{option} ({chance})", "{option}: {chance}", "{option} with probability {chance}", "{option} {chance}")
MOST_COINS = 4  # of a request, each with two options of its own
MOST_ANSWERS = 100  # of a request with several draws, whose answers are all combinations
# A and B are left to those who evaluate: public benchmarks ask for them.
LETTERS = tuple(string.ascii_uppercase[2:])


class Choice(NamedTuple):
    """A request, its law over answers, and what it is about: the wording's number, options, weights, chances, draws."""

    text: str
    law: FiniteLaw
    parameters: Mapping[str, str | float]


@cache
def check_choice_template(template: str) -> frozenset[str]:
    """The fields that a template names. Raises DomainError for an unknown one, or options that it does not tell."""
    named = frozenset(template_fields(template, itertools.chain.from_iterable(FIELDS.values())))
    two, many = named & set(FIELDS["two"]), named & set(FIELDS["any"])
    if bool(two) == bool(many) or len(many) > 1:
        raise DomainError(f"the template {template!r} names neither {{a}} and {{b}} nor one of {list(FIELDS['any'])}")
    if two and not {"a", "b"} <= named:
        raise DomainError(f"the template {template!r} is without {{a}} or {{b}}")
    weights = {"weight_a", "weight_b"}
    if named & weights and named & set(STATED) != weights:
        raise DomainError(f"the template {template!r} needs {{weight_a}} and {{weight_b}}, and no chances beside them")
    if "coins" in named and named & {"draws", "times"}:
        raise DomainError(f"the template {template!r} tosses {{coins}} once each, without {{draws}} or {{times}}")
    if ("separator" in named) != bool(named & {"draws", "times", "coins"}):
        raise DomainError(f"the template {template!r} needs {{separator}} beside {{draws}}, {{times}} or {{coins}}")
    return named


def make_choice(
    template: str,
    wording: int,
    words: Sequence[str],
    chances: Sequence[str],
    max_options: int,
    rng: np.random.Generator,
    only_words: bool = False,
) -> Choice:
    """A request with options, weights, form of chances and number of draws drawn at random. Options are ``words``, and
    at times numbers or letters; their order is random, so that a position tells nothing about a chance. Raises
    DomainError for a template that cannot be used."""
    named = check_choice_template(template)
    if "coins" in named and len(words) < 2 * MOST_COINS:
        raise DomainError(f"the template {template!r} needs {2 * MOST_COINS} words, and there are {len(words)}")
    coins = int(rng.integers(2, MOST_COINS + 1)) if "coins" in named else 1
    draws = int(rng.integers(2, 4)) if named & {"draws", "times"} else 1
    most = 2 if named & {"a", "coins"} else min(max_options, len(words))
    fitting = [number for number in range(2, most + 1) if number**draws <= MOST_ANSWERS]
    # Few options are asked for more often than many, as by people, and are what is learned first.
    shares = np.array([1 / (number - 1) for number in fitting])
    number = int(rng.choice(fitting, p=shares / shares.sum()))
    # Behind a count a number would be read as another.
    options = _options(number * coins, words, only_words or "counts" in named, rng)
    form = _form(named, chances, rng)
    told = form if named & set(STATED) else "alike"
    least = 1 if named & {"counts", "odds"} else 0
    laws = []
    for start in range(0, len(options), number):
        weights = [1] * number if told == "alike" else _parts(_one_of(TOTALS[form], rng), number, least, rng)
        laws.append(dict(zip(options[start : start + number], weights, strict=True)))
    separator = _one_of(list(SEPARATORS), rng)
    # Many words are another token behind a blank than alone; in quotation marks they are what the answer copies.
    quote = '"' if rng.random() < 0.6 else ""
    stated = [_stated(law, quote, form, rng) for law in laws]
    values = {
        **stated[0],
        "separator": separator,
        **({"draws": _one_of(NUMBERS[draws], rng), "times": _one_of(TIMES[draws], rng)} if draws > 1 else {}),
        **({"coins": "; ".join(each["weighted"] for each in stated)} if coins > 1 else {}),
    }
    weights = " | ".join(str(weight) for law in laws for weight in law.values())
    about = {"options": " | ".join(options), "weights": weights, "chances": told, "draws": coins * draws}
    return Choice(template.format(**values), _law(laws * draws, SEPARATORS[separator]), {WORDING: wording, **about})


def _one_of(values: Sequence[T], rng: np.random.Generator) -> T:
    return values[int(rng.integers(len(values)))]


def _form(named: frozenset[str], chances: Sequence[str], rng: np.random.Generator) -> str:
    if "counts" in named:
        return "counts"
    if named & {"percent_a", "percent_b"}:
        return "percent"
    if "weight_a" in named:
        return "weight"
    return "ratio" if "odds" in named else _one_of(chances, rng)


def _options(number: int, words: Sequence[str], only_words: bool, rng: np.random.Generator) -> list[str]:
    kind, small = rng.random(), rng.random() < 0.5
    if only_words or kind < 0.65:
        pool: Sequence[str] = words
    elif kind < 0.85:
        # Digits from 0 or 1 on, as on dice and coins, or any numbers.
        first = int(rng.integers(0, 2))
        pool = [str(n) for n in (range(first, first + number) if small else range(100))]
    else:
        pool = LETTERS
    return [pool[place] for place in rng.choice(len(pool), size=number, replace=False)]


def _parts(total: int, number: int, least: int, rng: np.random.Generator) -> list[int]:
    """``number`` whole parts of at least ``least`` that sum to ``total``, every such list as likely as any other."""
    room = max(total - number * least, 0)
    bars = np.sort(rng.choice(room + number - 1, size=number - 1, replace=False))
    return (np.diff(np.concatenate([[-1], bars, [room + number - 1]])) - 1 + least).tolist()


def _listed(texts: Sequence[str], last: str) -> str:
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}"


def _stated(law: Mapping[str, int], quote: str, form: str, rng: np.random.Generator) -> dict[str, str]:
    """What a template can say of options with weights."""
    if form == "counts":
        return {"counts": _listed([f"{weight} {option}" for option, weight in law.items()], "and")}
    shown, weights = [f"{quote}{option}{quote}" for option in law], list(law.values())
    texts = _amounts(weights, rng) if form == "weight" else [CHANCES[form](each, sum(weights)) for each in weights]
    pattern = _one_of([*PATTERNS, *(["{chance} {option}"] if form == "percent" else [])], rng)
    weighted = [pattern.format(option=option, chance=text) for option, text in zip(shown, texts, strict=True)]
    return {
        **{"a": shown[0], "b": shown[1], "chance_a": texts[0], "chance_b": texts[1]},
        **{"percent_a": texts[0], "percent_b": texts[1], "weight_a": texts[0], "weight_b": texts[1]},
        **{"odds": f"{weights[0]} to {weights[1]}", "weighted": _listed(weighted, "and")},
        "options": _listed(shown, "or"),
    }


def _amounts(weights: Sequence[int], rng: np.random.Generator) -> list[str]:
    """Weights as prices or votes are written, with up to two decimals and any sum."""
    decimals = _one_of((0, 0, 1, 2), rng)
    return [f"{weight / 10**decimals:.{decimals}f}" for weight in weights]


def _law(laws: Sequence[Mapping[str, int]], separator: str) -> FiniteLaw:
    """The law of independent draws, one from each of ``laws`` of weighted options, written one behind another."""
    answers = {(): Fraction(1)}
    for law in laws:
        chances = {option: Fraction(weight, sum(law.values())) for option, weight in law.items() if weight}
        answers = {(*text, o): mass * chance for text, mass in answers.items() for o, chance in chances.items()}
    return categorical_law({separator.join(text): float(mass) for text, mass in answers.items()})
