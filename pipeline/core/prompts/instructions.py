"""General instructions: which of them anchor retention-aware fine-tuning, and which are held out from it."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.core.prompts.text import TextPrompt
from pipeline.core.random_streams import stream_seed

ANCHOR, HELD_OUT = "anchor", "held_out"


def hold_out(prompts: Sequence[TextPrompt], share: float, seed: int) -> list[TextPrompt]:
    """The prompts in the same order, a share of each category in the split "held_out" and the others in "anchor".

    The draw is stratified by category. Each prompt's place in it comes from a stream of its own, so a category's
    held-out prompts depend neither on the order of the prompts nor on other categories. The share is rounded to whole
    prompts; of two or more, at least one is held out and at least one is not; a single one is not held out.
    """
    categories: dict[str, list[str]] = {}
    for prompt in prompts:
        categories.setdefault(prompt.category, []).append(prompt.prompt_id)
    held_out: set[str] = set()
    for members in categories.values():
        members.sort(key=lambda prompt_id: stream_seed(seed, "held_out_instructions", prompt_id))
        held_out.update(members[: min(max(round(share * len(members)), 1), len(members) - 1)])
    return [replace(prompt, split=HELD_OUT if prompt.prompt_id in held_out else ANCHOR) for prompt in prompts]
