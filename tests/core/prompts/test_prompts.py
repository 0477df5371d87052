"""Requests: from a structured one back to its law, the paper's open-ended ones, instructions that are held out."""

from collections import Counter

import pytest

from pipeline.core.laws.families import FAMILIES
from pipeline.core.prompts.open_ended import OPEN_CATEGORIES, open_prompts
from pipeline.core.prompts.structured import build_split, make_prompt, parse_prompt
from pipeline.core.prompts.text import ANCHOR, HELD_OUT, TextPrompt, hold_out
from pipeline.errors import DomainError

PROMPTS = [
    *build_split("train", prompts_per_family=3),
    *build_split("unseen"),
    *build_split("unseen", selection="interpolated"),
    *build_split("ood"),
]


def test_every_request_gives_its_own_prompt_back():
    assert {prompt.family for prompt in PROMPTS} == set(FAMILIES)
    for prompt in PROMPTS:
        found = parse_prompt(prompt.text)
        for name in ("prompt_id", "text", "parameters", "law"):
            assert getattr(found, name) == getattr(prompt, name)


def test_other_ways_of_writing_it():
    prompt = make_prompt("gaussian", {"mu": 0.0, "sigma": 0.5}, "train")
    written = f"  {prompt.text.replace('mu=0.0, sigma=0.5', 'mu=0, sigma=5e-1')}\n"
    assert written.strip() != prompt.text and parse_prompt(written).prompt_id == prompt.prompt_id
    others = [("Gaussian", "Normal"), ("mu=", "mu "), ("mu=0.0", "mu=zero"), ("ONE", "one"), ("number.", "number. No!")]
    assert all(parse_prompt(prompt.text.replace(*change)) is None for change in others)
    for change in (("sigma=0.5", "sigma=-0.5"), ("sigma=0.5", "sigma=nan"), ("sigma=", "scale=")):
        with pytest.raises(DomainError, match="gaussian"):
            parse_prompt(prompt.text.replace(*change))


def test_open_ended_requests():
    prompts = open_prompts()
    assert len({category.casefold() for category in OPEN_CATEGORIES}) == 102
    # The paper's examples, to the letter.
    assert {prompt.text for prompt in prompts} >= {
        "Choose a random first name. Output ONLY the answer.",
        "Name a random city. Output ONLY the answer.",
        "Think of a random animal. Output ONLY the answer.",
        "Pick a random musical instrument. Output ONLY the answer.",
    }
    assert [prompt.category for prompt in prompts] == list(OPEN_CATEGORIES)
    # Ids name random streams and files: a change would silently draw other samples.
    assert prompts[1].prompt_id == "open-first-name-b44276ae08"


def prompts_of(**sizes):
    return [TextPrompt(f"{kind}-{n}", "", kind, f"{kind} {n}") for kind, size in sizes.items() for n in range(size)]


def held_out(prompts, share=0.25, seed=0):
    return {prompt.prompt_id for prompt in hold_out(prompts, share, seed) if prompt.split == HELD_OUT}


def test_each_category_of_instructions_keeps_its_share():
    prompts = prompts_of(question=40, code=8, list=3)
    found = hold_out(prompts, 0.25, 0)
    sizes = Counter((prompt.category, prompt.split) for prompt in found)
    expected = {"question": (10, 30), "code": (2, 6), "list": (1, 2)}
    assert sizes == {(k, s): n for k, ns in expected.items() for s, n in zip((HELD_OUT, ANCHOR), ns, strict=True)}
    # In the order given, and nothing else has changed.
    assert [(p.prompt_id, p.category, p.text) for p in found] == [(p.prompt_id, p.category, p.text) for p in prompts]


def test_the_draw_depends_on_the_seed_and_on_neither_order_nor_other_categories():
    prompts = prompts_of(question=40, code=40)
    first = held_out(prompts)
    assert first == held_out(prompts[::-1]) != held_out(prompts, seed=1)
    codes = {name for name in first if name.startswith("code")}
    assert {name for name in held_out(prompts_of(code=40, list=12)) if name.startswith("code")} == codes
    # The numbers that are held out differ between categories: no stream is shared.
    assert {name.split("-")[1] for name in codes} != {name.split("-")[1] for name in first - codes}
