"""Pin what comes from the hub to commits: ``python -m pipeline.sources.pin`` writes them into ``conf/``.

Every checkpoint of ``conf/model`` and every data set and evaluator of the other groups gets the commit that its default
branch (or the branch or tag named so far) is at now. Comments and layout of the files stay. What only axes need that
are switched off in params.yaml is left alone. What cannot be reached is reported at the end; the others are pinned all
the same.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.artifacts.atomic import atomic_path
from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.config.evaluation import AXES, QUESTION_AXES
from pipeline.config.params import Params, load_params
from pipeline.config.retention import is_local_path, task_data_set
from pipeline.errors import ConfigError, PipelineError
from pipeline.sources import repository as hub
from pipeline.sources.paloma_documents import slice_patterns

TOKENIZER_FILES = ("*.json", "*.jinja", "*.model", "*.txt")
CHECKPOINT_FILES = (*TOKENIZER_FILES, "*.safetensors")
GROUPS = ("model", "prompts", "evaluate", "retention", "paloma")
"""Folders of ``conf/`` whose files name repositories of the hub."""
NEEDED_BY = {
    "prompts.novelty": ("novelty",),
    "prompts.questions": QUESTION_AXES,
    "evaluate.novelty": ("novelty",),
    "selfreflect": ("selfreflect",),
    "retention": ("retention",),
    "paloma": ("paloma",),
}
"""Axes that read what a section names; all other sections are read whatever the axes."""


@dataclass(frozen=True)
class HubSource:
    """A repository that a file of ``conf/`` or params.yaml names."""

    keys: tuple[str, ...]  # of the revision in the file
    repository: str
    revision: str | None  # commit, branch or tag; None for the default branch
    kind: hub.Kind
    files: tuple[str, ...] | None = None  # patterns of the files that are read; None for all
    path: Path | None = None  # the file of ``conf/``

    @property
    def key(self) -> str:
        return ".".join(self.keys)

    def __str__(self) -> str:
        return f"{self.path}: {self.key} ({self.repository})"


def hub_sources(values: Any, keys: tuple[str, ...] = (), path: Path | None = None) -> Iterator[HubSource]:
    """Every repository of the hub that a mapping, or one within it, names beside its revision."""
    if not isinstance(values, Mapping):
        return
    for name, revision, files in (
        ("checkpoint", "revision", CHECKPOINT_FILES),
        ("tokenizer", "tokenizer_revision", TOKENIZER_FILES),
        ("source", "revision", None),
        ("source", "revisions", None),
    ):
        repository = values.get(name)
        if revision not in values or not isinstance(repository, str) or is_local_path(repository):
            continue
        kind: hub.Kind = "dataset" if files is None else "model"
        if revision == "revisions":
            for task, commit in values[revision].items():
                yield HubSource((*keys, revision, task), task_data_set(repository, task), commit, kind, files, path)
        else:
            if keys == ("paloma",) and "slices" in values:
                files = tuple(slice_patterns(values["slices"], values["split"]))
            yield HubSource((*keys, revision), repository, values[revision], kind, files, path)
    for key, section in values.items():
        yield from hub_sources(section, (*keys, key), path)


def _is_needed(key: str, axes: Collection[str]) -> bool:
    return all(set(needing) & set(axes) for section, needing in NEEDED_BY.items() if key.startswith(f"{section}."))


def conf_sources(conf: Path, axes: Collection[str] = tuple(AXES)) -> Iterator[HubSource]:
    """What the files of ``conf/`` take from the hub for ``axes``, group by group. Raises ConfigError."""
    for group in GROUPS:
        for path in sorted((conf / group).glob("*.yaml")):
            try:
                values = yaml.safe_load(path.read_text())
            except yaml.YAMLError as error:
                raise ConfigError(f"{path} is not valid YAML ({' '.join(str(error).split())})") from None
            sources = hub_sources(values, path=path)
            yield from (source for source in sources if _is_needed(f"{group}.{source.key}", axes))


def downloads(params: Params) -> list[HubSource]:
    """What the DAG takes from the hub; what only axes need that are switched off is not among it."""
    values = asdict(params)
    retention = values["retention"]
    retention["revisions"] = {task: retention["revisions"].get(task) for task in retention["tasks"]}
    return [source for source in hub_sources(values) if _is_needed(source.key, params.axes)]


def unpinned(params: Params) -> list[str]:
    """Dotted keys of what ``params`` takes from the hub without naming a commit."""
    return [source.key for source in downloads(params) if not hub.is_commit(source.revision)]


def write_revision(source: HubSource, commit: str) -> None:
    """Replace one revision in its file and nothing else."""
    text = source.path.read_text()
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    for key in source.keys:
        node = next(value for name, value in node.value if name.value == key)
    start, end = node.start_mark.index, node.end_mark.index
    # Quoted, because a commit of digits alone would be a number. A key without a value has no blank to follow.
    value = f'"{commit}"' if start < end else f' "{commit}"'
    with atomic_path(source.path) as temporary:
        temporary.write_text(text[:start] + value + text[end:])


def main(conf: Path, update: bool, params: Path) -> None:
    """Pin what has no commit, and with ``update`` what has one. Raises ConfigError if anything is left without."""
    if not (conf / "model").is_dir():
        raise ConfigError(f"--conf: {conf} has no directory model")
    axes = load_params(params).axes if params.exists() else list(AXES)
    failures = []
    for source in list(conf_sources(conf, axes)):
        pinned = hub.is_commit(source.revision)
        if pinned and not update:
            continue
        try:
            commit = hub.current_commit(source.repository, None if pinned else source.revision, source.kind)
            write_revision(source, commit)
            print(f"{source}: {commit}")
        except PipelineError as error:
            failures.append(f"{source}: {error}" + (f"; it stays at {source.revision}" if pinned else ""))
    if failures:
        problem = f"{len(failures)} source(s) not pinned (what was reached is written; run it again for the rest):"
        raise ConfigError("\n  ".join([problem, *failures]))
    print("every checkpoint and data set of the hub is pinned; after a change, `make params` takes it over")
    if off := [axis for axis in AXES if axis not in axes]:
        print(f"left alone: what only {', '.join(off)} would need ({params}: axes)")


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.sources.pin"))
