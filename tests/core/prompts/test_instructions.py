"""The held-out draw of instructions: stratified, seeded, and one category's own business."""

from collections import Counter

import pytest

from pipeline.core.prompts.text import ANCHOR, HELD_OUT, TextPrompt, hold_out


def prompts_of(**sizes):
    return [
        TextPrompt(f"{kind}-{number}", "", kind, f"{kind} {number}")
        for kind, size in sizes.items()
        for number in range(size)
    ]


def held_out(prompts, share=0.25, seed=0):
    return {prompt.prompt_id for prompt in hold_out(prompts, share, seed) if prompt.split == HELD_OUT}


def test_each_category_keeps_its_share():
    prompts = prompts_of(question=40, code=8, list=3)
    found = hold_out(prompts, 0.25, 0)
    sizes = Counter((prompt.category, prompt.split) for prompt in found)
    assert sizes == {
        ("question", HELD_OUT): 10,
        ("question", ANCHOR): 30,
        ("code", HELD_OUT): 2,
        ("code", ANCHOR): 6,
        ("list", HELD_OUT): 1,
        ("list", ANCHOR): 2,
    }
    # In the order given, and nothing else has changed.
    assert [(p.prompt_id, p.category, p.text) for p in found] == [(p.prompt_id, p.category, p.text) for p in prompts]


@pytest.mark.parametrize(
    ("size", "share", "expected"), [(1, 0.9, 0), (2, 0.01, 1), (2, 0.99, 1), (7, 0.99, 6), (9, 0.05, 1), (10, 0.34, 3)]
)
def test_of_two_one_is_held_out_and_one_is_not(size, share, expected):
    assert len(held_out(prompts_of(code=size), share)) == expected


def test_the_draw_depends_on_the_seed_and_on_neither_order_nor_other_categories():
    prompts = prompts_of(question=40, code=40)
    first = held_out(prompts)
    assert held_out(prompts) == first == held_out(prompts[::-1])
    assert held_out(prompts_of(code=40, list=12)) & {f"code-{n}" for n in range(40)} == {
        name for name in first if name.startswith("code")
    }
    assert held_out(prompts, seed=1) != first
    # The numbers that are held out differ between categories: no stream is shared.
    numbers = {kind: {name.split("-")[1] for name in first if name.startswith(kind)} for kind in ("question", "code")}
    assert numbers["question"] != numbers["code"]
