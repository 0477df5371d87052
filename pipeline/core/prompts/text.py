"""Prompts whose answers are text: open-ended, multiple-choice and NoveltyBench requests, and general instructions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.core.random_streams import stream_seed

ANCHOR, HELD_OUT = "anchor", "held_out"
"""Splits of instructions: what anchors a fine-tuned model, and what is held out from it."""


@dataclass(frozen=True)
class TextPrompt:
    """One request for a text; ``category`` is what is asked for (open-ended), the benchmark's topic or an instruction's
    kind, empty where unknown."""

    prompt_id: str
    split: str
    category: str
    text: str


def hold_out(prompts: Sequence[TextPrompt], share: float, seed: int) -> list[TextPrompt]:
    """The instructions in the same order, a share of each category in the split HELD_OUT, whose draw depends neither on
    the order nor on other categories. Of two or more prompts, at least one is held out and at least one is not."""
    categories: dict[str, list[str]] = {}
    for prompt in prompts:
        categories.setdefault(prompt.category, []).append(prompt.prompt_id)
    held_out: set[str] = set()
    for members in categories.values():
        members.sort(key=lambda prompt_id: stream_seed(seed, "held_out_instructions", prompt_id))
        held_out.update(members[: min(max(round(share * len(members)), 1), len(members) - 1)])
    return [replace(prompt, split=HELD_OUT if prompt.prompt_id in held_out else ANCHOR) for prompt in prompts]
