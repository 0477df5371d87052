"""Prompts: one row per distribution and parameter setting (arXiv:2605.11845, Appendix C.1)."""

import hashlib
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.core.laws.families import FAMILIES, get_family
from pipeline.core.laws.family import Family, Law, Parameters
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.random_streams import random_stream
from pipeline.errors import DomainError

TEMPLATE = (
    "Generate exactly ONE random number from a {display_name} distribution with parameters {parameters}. "
    "Output ONLY the number."
)
SPLITS = ("train", "unseen", "ood")
WORDING = "wording"
"""The parameter of a choice that says which of its templates asks for it."""
_IN_TEMPLATE = re.compile(
    re.escape(TEMPLATE).replace(r"\{display_name\}", "(.+)").replace(r"\{parameters\}", "(.+=.+)"), re.DOTALL
)


@dataclass(frozen=True)
class Prompt:
    """One structured-sampling prompt and the law it asks for; ``prompt_id`` is the family and a digest of the text."""

    prompt_id: str
    split: str
    family: str
    tier: str
    parameters: Mapping[str, str | float]
    text: str
    law: Law | FiniteLaw

    @property
    def support(self) -> tuple[float, float]:
        return self.law.support

    @property
    def group(self) -> str:
        """What training takes in turns: the family, and of choices the wording."""
        wording = self.parameters.get(WORDING)
        return self.family if wording is None else f"{self.family} {wording}"


def format_prompt(family: Family, parameters: Parameters) -> str:
    rendered = ", ".join(f"{parameter.name}={float(parameters[parameter.name])!r}" for parameter in family.parameters)
    return TEMPLATE.format(display_name=family.display_name, parameters=rendered)


def template_fields(template: str, allowed: Iterable[str]) -> list[str]:
    """The fields that a template of one's own names, in order. Raises DomainError for a malformed one, or a field that
    is not ``allowed``."""
    try:
        named = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise DomainError(f"the template {template!r} is malformed ({error}); write {{{{ for a brace") from None
    allowed = list(allowed)
    if unknown := [name for name in named if name not in allowed]:
        raise DomainError(f"the template {template!r} has the unknown field {unknown[0]!r}; there are {allowed}")
    return named


def prompt_id(family_id: str, text: str) -> str:
    return f"{family_id}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def make_prompt(family_id: str, parameters: Parameters, split: str) -> Prompt:
    family = get_family(family_id)
    law = family.law_at(parameters)
    text = format_prompt(family, parameters)
    ordered = {parameter.name: float(parameters[parameter.name]) for parameter in family.parameters}
    return Prompt(prompt_id(family_id, text), split, family_id, family.tier, ordered, text, law)


def parse_prompt(text: str) -> Prompt | None:
    """The inverse of ``format_prompt``, however its numbers are written, in the split ""; None for another request.
    Raises DomainError for parameters that the family does not have."""
    families = {family.display_name: name for name, family in FAMILIES.items()}
    found = _IN_TEMPLATE.fullmatch(text.strip())
    if found is None or found[1] not in families:
        return None
    pairs = [part.partition("=") for part in found[2].split(", ")]
    try:
        parameters = {name: float(value) for name, _, value in pairs}
    except ValueError:
        return None
    return make_prompt(families[found[1]], parameters, "")


def build_split(
    split: str,
    *,
    selection: str = "full",
    families: Sequence[str] | None = None,
    prompts_per_family: int | None = None,
    fresh: bool = False,
    seed: int = 0,
) -> list[Prompt]:
    """Prompts of one split in table and grid order: "train" and "unseen" of the seen families, "ood" of the held-out;
    ``prompts_per_family`` are drawn without replacement, or ``fresh``: at random between the ends of the training grid.
    Raises DomainError for an unknown family."""
    wanted = FAMILIES if families is None else {get_family(name).family_id for name in families}
    prompts = []
    for family_id, family in FAMILIES.items():
        if family_id not in wanted or family.seen == (split == "ood"):
            continue
        if fresh:
            prompts.extend(_fresh_prompts(family, prompts_per_family or 0, seed))
            continue
        points = list(family.grid_points("train" if split == "train" else "test", selection))
        if prompts_per_family is not None and prompts_per_family < len(points):
            rng = random_stream(seed, "prompt_subset", split, family_id)
            kept = np.sort(rng.choice(len(points), size=prompts_per_family, replace=False))
            points = [points[index] for index in kept]
        prompts.extend(make_prompt(family_id, point, split) for point in points)
    return prompts


def _fresh_prompts(family: Family, number: int, seed: int) -> list[Prompt]:
    """Distinct training prompts with parameters drawn at random, none of which is an unseen prompt."""
    family_id, rng = family.family_id, random_stream(seed, "fresh_parameters", family.family_id)
    tested = {format_prompt(family, point) for point in family.grid_points("test", "interpolated")}
    found: dict[str, Prompt] = {}
    while len(found) < number:
        prompt = make_prompt(family_id, family.fresh_point(rng), "train")
        if prompt.text not in tested:
            found.setdefault(prompt.text, prompt)
    return list(found.values())
