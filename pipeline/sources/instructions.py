"""General instructions, from a JSON-lines file or from a data set of the hub."""

import hashlib

from pipeline.config.prompts import InstructionsConfig
from pipeline.core.prompts.text import HELD_OUT, TextPrompt, hold_out
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.prompt_rows import read_rows, row_id, row_text

KEY = "prompts.instructions"
FIELDS = ("prompt",)


def read_instructions(config: InstructionsConfig, revision: str | None, seed: int) -> list[TextPrompt]:
    """The instructions in the source's order; the category is the kind, the split "anchor" or "held_out".

    An instruction without an id gets a digest of its text for one.

    Args:
        config: Where they come from, and how many are held out.
        revision: Commit of a hub data set.
        seed: Root of the random streams that the held-out ones are drawn by.

    Raises:
        ConfigError: A data set has no such split, a file is given one, or no kind has two instructions.
        ArtifactError: The source cannot be read or has no instructions, or one is empty or there twice, or its id or
            kind is unusable.
    """
    prompts: dict[str, TextPrompt] = {}
    rows = read_rows(KEY, config.source, revision, config.split, FIELDS)
    texts: set[str] = set()
    for number, row in enumerate(rows[: config.max_prompts], start=1):
        where = f"{config.source}: prompt {number}"
        text, kind = row_text(row, where).strip(), row.get("kind") or ""
        if not isinstance(kind, str):
            raise ArtifactError(f"{where}: the field 'kind' must be a text, got {kind!r}")
        if (normalised := " ".join(text.lower().split())) in texts:
            raise ArtifactError(f"{where}: the prompt {text!r} is there twice")
        texts.add(normalised)
        if row.get("id") is None:
            prompt_id = f"instruction-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
        else:
            prompt_id = row_id(row, where)
        if prompt_id in prompts:
            raise ArtifactError(f"{where}: the id {prompt_id!r} is there twice")
        prompts[prompt_id] = TextPrompt(prompt_id, "", kind, text)
    if not prompts:
        raise ArtifactError(f"{config.source} has no prompts")
    found = hold_out(list(prompts.values()), config.held_out_share, seed)
    if not any(prompt.split == HELD_OUT for prompt in found):
        raise ConfigError(
            f"{KEY}: no kind has two instructions, one of which could be held out, among the {len(found)} of "
            f"{config.source} that are kept (max_prompts)"
        )
    return found
