"""Prompts of laws that a user's files describe: templates, trained on or held out, times the law's cases."""

import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.prompts.structured import Prompt, prompt_id
from pipeline.errors import DomainError

SPLITS = ("held_out_template", "held_out_field", "seen_template")
"""Of the axis laws: paraphrases and field values that were not trained on; what was trained on."""


@dataclass(frozen=True)
class LawCase:
    """One law of a file; ``fields`` are what templates may say of it."""

    fields: Mapping[str, str | int | float]
    law: Law | FiniteLaw
    held_out: bool = False


@dataclass(frozen=True)
class OwnLaw:
    """A file's laws, and the templates that are trained on and held out; ``name`` is the family of its prompts."""

    name: str
    train: Sequence[str]
    test: Sequence[str]
    cases: Sequence[LawCase]


def _check_fields(template: str, fields: Mapping[str, object], required: Sequence[str]) -> None:
    try:
        named = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise DomainError(f"the template {template!r} is malformed ({error}); write {{{{ for a brace") from None
    if unknown := [name for name in named if name not in fields]:
        raise DomainError(f"the template {template!r} has the unknown field {unknown[0]!r}; there are {list(fields)}")
    if missing := [name for name in required if name not in named]:
        raise DomainError(f"the template {template!r} is without its field {{{missing[0]}}}")


def own_law_prompts(own: OwnLaw) -> tuple[list[Prompt], list[Prompt]]:
    """Prompts to train on (split "train"), and those of the axis laws (``SPLITS``). Raises DomainError.

    Held-out cases are asked with the held-out templates, or with the others where there are none. A template must name
    every field whose values differ.
    """
    trained = [case for case in own.cases if not case.held_out]
    if not trained:
        raise DomainError("every law is held out, so there is nothing to train on")
    fields = own.cases[0].fields
    varied = [name for name in fields if len({case.fields[name] for case in own.cases}) > 1]
    for template in (*own.train, *own.test):
        _check_fields(template, fields, varied)

    def prompts(split: str, templates: Sequence[str], cases: Sequence[LawCase]) -> list[Prompt]:
        return [
            Prompt(prompt_id(own.name, text), split, own.name, "", dict(case.fields), text, case.law)
            for case in cases
            for text in (template.format(**case.fields) for template in templates)
        ]

    test = [
        *prompts("seen_template", own.train, trained),
        *prompts("held_out_template", own.test, trained),
        *prompts("held_out_field", own.test or own.train, [case for case in own.cases if case.held_out]),
    ]
    for text, count in Counter(prompt.text for prompt in test).items():
        if count > 1:
            raise DomainError(f"the request {text!r} is made twice")
    return prompts("train", own.train, trained), test
