"""NoveltyBench's prompts, from a JSON-lines file or from a data set of the hub.

A file has the fields id, prompt, split and, where known, category; a directory has one file
SPLIT.jsonl per split instead of the field split. Anything else is a data set that the package
``datasets`` reads, and its commit is recorded beside the output.
"""

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.config.params import NoveltyPromptsConfig
from pipeline.config.retention import is_local_path
from pipeline.core.prompts.text import TextPrompt
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.repository import PUBLISHED_RESULTS, fetched, pinned_commit

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def local_files(config: NoveltyPromptsConfig) -> list[Path]:
    """JSON-lines files behind the source, none for a data set. Raises ArtifactError for a missing file."""
    path = Path(config.source)
    if path.is_dir():
        return sorted(path.glob("*.jsonl"))
    if is_local_path(config.source) and not path.is_file():
        raise ArtifactError(f"prompts.novelty.source: {config.source} does not exist")
    return [path] if path.is_file() else []


def read_files(source: str, files: Sequence[Path]) -> Rows:
    """Rows by split of local files."""
    if Path(source).is_dir():
        return {path.stem: read_json_lines(path, ("id", "prompt")) for path in files}
    rows: dict[str, list] = {}
    for row in read_json_lines(files[0], ("id", "prompt", "split")):
        rows.setdefault(str(row["split"]), []).append(row)
    return rows


def pinned_revision(source: str, revision: str | None) -> str | None:
    """Commit of a hub data set; None for a directory in the hub's format. Raises ArtifactError."""
    return revision if Path(source).is_dir() else pinned_commit(source, revision, "dataset")


def read_dataset(source: str, revision: str | None, splits: Sequence[str]) -> Rows:
    """Rows by split of a data set, of the wanted ``splits`` only (the others are empty).

    Raises:
        ArtifactError: The data set cannot be read or lacks a field.
    """
    import datasets

    datasets.disable_progress_bars()
    directory = (
        source if Path(source).is_dir() else str(fetched(source, revision, "dataset", without=PUBLISHED_RESULTS))
    )
    rows = {}
    # A cache of its own: the package's does not notice that the files of a directory have changed.
    with tempfile.TemporaryDirectory() as cache:
        try:
            for split in datasets.get_dataset_split_names(directory):
                wanted = split in splits
                rows[split] = datasets.load_dataset(directory, split=split, cache_dir=cache) if wanted else []
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
            reason = str(error.__cause__ or error).splitlines()[0]
            raise ArtifactError(f"cannot read the data set {source}: {reason}") from None
        for split in filter(rows.__contains__, splits):
            names = rows[split].column_names
            if missing := [field for field in ("id", "prompt") if field not in names]:
                raise ArtifactError(f"{source}: split {split!r} has no field {missing[0]!r}; it has {', '.join(names)}")
            rows[split] = rows[split].to_list()
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
            if not isinstance(row["prompt"], str) or not row["prompt"].strip():
                raise ArtifactError(f"{where}: the field 'prompt' must be a text, got {row['prompt']!r}")
            # The id names the files of unfinished generations.
            if not isinstance(row["id"], str) or not re.fullmatch(r"[\w.-]{1,200}", row["id"]):
                raise ArtifactError(f"{where}: the id must be letters, digits and -_. only, got {row['id']!r}")
            prompt_id = f"{split}.{row['id']}"
            if prompt_id in prompts:
                raise ArtifactError(f"{where}: the id {row['id']!r} is there twice")
            prompts[prompt_id] = TextPrompt(prompt_id, split, row.get("category") or "", row["prompt"])
    return list(prompts.values())
