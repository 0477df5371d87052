"""NoveltyBench's prompts, from a JSON-lines file or from a data set of the hub.

A file has the fields id, prompt, split and, where known, category; a directory has one file
SPLIT.jsonl per split instead of the field split. Anything else is a data set that the package
``datasets`` reads, and its commit is recorded beside the output.
"""

from pathlib import Path

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.config.prompts import NoveltyPromptsConfig
from pipeline.core.prompts.text import TextPrompt
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.prompt_rows import Rows, read_splits, row_id, row_text

KEY = "prompts.novelty.source"


def read_rows(config: NoveltyPromptsConfig, revision: str | None) -> Rows:
    """Rows by split; ``revision`` is the commit of a hub data set. Raises ArtifactError."""
    if not Path(config.source).is_file():
        return read_splits(config.source, revision, config.splits, ("id", "prompt"))
    rows: dict[str, list] = {}
    for row in read_json_lines(Path(config.source), ("id", "prompt", "split")):
        rows.setdefault(str(row["split"]), []).append(row)
    return rows


def select_prompts(config: NoveltyPromptsConfig, rows: Rows) -> list[TextPrompt]:
    """The wanted splits' prompts in order. Prompt ids are ``SPLIT.ID`` with the benchmark's id.

    Raises:
        ConfigError: A split is not in the source.
        ArtifactError: A split has no prompts, or a prompt is empty or its id unusable or taken.
    """
    prompts: dict[str, TextPrompt] = {}
    for split in config.splits:
        if split not in rows:
            raise ConfigError(
                f"prompts.novelty.splits: {config.source} has no split {split!r}; it has {', '.join(sorted(rows))}"
            )
        members = list(rows[split])[: config.max_prompts_per_split]
        if not members:
            raise ArtifactError(f"{config.source}: split {split!r} has no prompts")
        for number, row in enumerate(members, start=1):
            where = f"{config.source}: split {split!r}, prompt {number}"
            text = row_text(row, where)
            prompt_id = f"{split}.{row_id(row, where)}"
            if prompt_id in prompts:
                raise ArtifactError(f"{where}: the id {row['id']!r} is there twice")
            prompts[prompt_id] = TextPrompt(prompt_id, split, row.get("category") or "", text)
    return list(prompts.values())
