"""Prompts of others: NoveltyBench's, general instructions and open-ended requests, of files or data sets of the hub."""

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.config.prompts import InstructionsConfig, NoveltyPromptsConfig
from pipeline.config.retention import is_local_path
from pipeline.core.prompts.open_ended import open_prompt, open_prompts
from pipeline.core.prompts.text import HELD_OUT, TextPrompt, hold_out
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.repository import PUBLISHED_RESULTS, fetched, pinned_commit, reading

NOVELTY, INSTRUCTIONS, OPEN = "prompts.novelty", "prompts.instructions", "prompts.open"
Row = Mapping[str, Any]


def recorded_revision(run: Any, key: str, config: Any) -> str | None:
    """Commit of the hub data set that a section's ``source`` and ``revision`` name, None for what is local; the run's
    record has it from here on. Raises ArtifactError."""
    revision = None
    if not Path(config.source).exists():
        if is_local_path(config.source):
            raise ArtifactError(f"{key}.source: {config.source} does not exist")
        revision = pinned_commit(config.source, config.revision, "dataset")
    run.record.add(revision=revision)
    return revision


def _read_split(source: str, revision: str | None, split: str, fields: Sequence[str]) -> Mapping[str, Sequence[Row]]:
    """Rows by split of a data set; those of other splits are left out."""
    import datasets

    datasets.disable_progress_bars()
    directory, rows = source, []
    if not Path(source).is_dir():
        directory = str(fetched(source, revision, "dataset", without=PUBLISHED_RESULTS))
    # A cache of its own: the package's does not notice that the files of a directory have changed.
    with tempfile.TemporaryDirectory() as cache, reading(source):
        splits = datasets.get_dataset_split_names(directory)
        if split in splits:
            table = datasets.load_dataset(directory, split=split, cache_dir=cache)
            names, rows = table.column_names, table.to_list()
            if missing := [field for field in fields if field not in names]:
                raise ArtifactError(f"{source}: split {split!r} has no field {missing[0]!r}; it has {', '.join(names)}")
    return dict.fromkeys(splits, ()) | ({split: rows} if split in splits else {})


def read_rows(key: str, source: str, revision: str | None, split: str | None, fields: Sequence[str]) -> Sequence[Row]:
    """Rows with ``fields`` of a data set's split, or of a JSON-lines file (by a field ``split`` where one is asked
    for)."""
    rows: dict[str, Sequence[Row]] = {}
    if Path(source).is_file():
        found = read_json_lines(Path(source), fields if split is None else (*fields, "split"))
        if split is None:
            return found
        for row in found:
            rows.setdefault(str(row["split"]), []).append(row)
    elif split is None:
        raise ConfigError(f"{key}: must name a split of the data set {source}, got null")
    else:
        rows = _read_split(source, revision, split, fields)
    if split not in rows:
        raise ConfigError(f"{key}: {source} has no split {split!r}; it has {', '.join(sorted(rows))}")
    return rows[split]


def row_text(row: Row, where: str) -> str:
    """A row's prompt. Raises ArtifactError where it is empty or no text."""
    if not isinstance(row["prompt"], str) or not row["prompt"].strip():
        raise ArtifactError(f"{where}: the field 'prompt' must be a text, got {row['prompt']!r}")
    return row["prompt"]


def row_id(row: Row, where: str) -> str:
    """A row's id, which names the files of unfinished generations. Raises ArtifactError where it cannot."""
    if not isinstance(row["id"], str) or not re.fullmatch(r"[\w.-]{1,200}", row["id"]):
        raise ArtifactError(f"{where}: the id must be letters, digits and -_. only, got {row['id']!r}")
    return row["id"]


def _label(row: Row, field: str, where: str) -> str:
    if not isinstance(label := row.get(field) or "", str):
        raise ArtifactError(f"{where}: the field {field!r} must be a text, got {label!r}")
    return label


def _add(prompts: dict[str, TextPrompt], prompt: TextPrompt, where: str) -> None:
    if prompt.prompt_id in prompts:
        raise ArtifactError(f"{where}: the prompt {prompt.text!r} (id {prompt.prompt_id}) is there twice")
    prompts[prompt.prompt_id] = prompt


def _some(prompts: dict[str, TextPrompt], source: str) -> list[TextPrompt]:
    if not prompts:
        raise ArtifactError(f"{source} has no prompts")
    return list(prompts.values())


def read_novelty_prompts(config: NoveltyPromptsConfig, revision: str | None) -> list[TextPrompt]:
    """The wanted splits' prompts in order, with ids ``SPLIT.ID``."""
    prompts: dict[str, TextPrompt] = {}
    for split in config.splits:
        rows = read_rows(f"{NOVELTY}.splits", config.source, revision, split, ("id", "prompt"))
        members = rows[: config.max_prompts_per_split]
        if not members:
            raise ArtifactError(f"{config.source}: split {split!r} has no prompts")
        for number, row in enumerate(members, start=1):
            where = f"{config.source}: split {split!r}, prompt {number}"
            text, name = row_text(row, where), f"{split}.{row_id(row, where)}"
            _add(prompts, TextPrompt(name, split, _label(row, "category", where), text), where)
    return list(prompts.values())


def read_instructions(config: InstructionsConfig, revision: str | None, seed: int) -> list[TextPrompt]:
    """General instructions in the source's order: the category is the kind, a missing id a digest of the text, the
    split "anchor" or "held_out", drawn from ``seed``."""
    prompts: dict[str, TextPrompt] = {}
    rows = read_rows(f"{INSTRUCTIONS}.split", config.source, revision, config.split, ("prompt",))
    texts: set[str] = set()
    for number, row in enumerate(rows[: config.max_prompts], start=1):
        where = f"{config.source}: prompt {number}"
        text = row_text(row, where).strip()
        if (normalised := " ".join(text.lower().split())) in texts:
            raise ArtifactError(f"{where}: the prompt {text!r} is there twice")
        texts.add(normalised)
        digest = f"instruction-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
        name = digest if row.get("id") is None else row_id(row, where)
        _add(prompts, TextPrompt(name, "", _label(row, "kind", where), text), where)
    found = hold_out(_some(prompts, config.source), config.held_out_share, seed)
    if not any(prompt.split == HELD_OUT for prompt in found):
        raise ConfigError(
            f"{INSTRUCTIONS}: no kind has two instructions, one of which could be held out, among the {len(found)} of "
            f"{config.source} that are kept (max_prompts)"
        )
    return found


def read_open_prompts(source: str | None) -> list[TextPrompt]:
    """The open-ended requests of a file .jsonl or .json in its order; None for our own 102."""
    if source is None:
        return open_prompts()
    path = Path(source)
    if path.suffix not in (".jsonl", ".json"):
        raise ConfigError(f"{OPEN}.source: {source} must end in .jsonl or .json")
    if not path.is_file():
        raise ArtifactError(f"{OPEN}.source: {source} does not exist")
    prompts: dict[str, TextPrompt] = {}
    for number, row in enumerate(_request_rows(path), start=1):
        where = f"{source}: prompt {number}"
        _add(prompts, open_prompt(row_text(row, where).strip(), _label(row, "category", where)), where)
    return _some(prompts, source)


def _request_rows(path: Path) -> list[Row]:
    if path.suffix == ".jsonl":
        return read_json_lines(path, ("prompt",))
    try:
        texts = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ArtifactError(f"{path} is not JSON in UTF-8 ({error})") from None
    if not isinstance(texts, list):
        raise ArtifactError(f"{path} must hold one list of texts")
    return [{"prompt": text} for text in texts]
