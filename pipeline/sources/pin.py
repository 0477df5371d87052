"""Pin what comes from the hub to commits: ``python -m pipeline.sources.pin`` writes them into ``conf/``.

Every checkpoint of ``conf/model`` and every data set and evaluator of the other groups gets the commit that its default
branch (or the branch or tag named so far) is at now. Comments and layout of the files stay. What only axes need that
are switched off in params.yaml is left alone. What cannot be reached is reported at the end; the others are pinned all
the same.
"""

import argparse
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pipeline.artifacts.atomic import atomic_path
from pipeline.command import run_command
from pipeline.config.evaluation import AXES, QUESTION_AXES
from pipeline.config.params import Params, load_params
from pipeline.config.retention import is_local_path, task_data_set
from pipeline.errors import ConfigError, PipelineError
from pipeline.sources import repository as hub
from pipeline.sources.paloma_documents import slice_patterns

TOKENIZER_FILES = ("*.json", "*.jinja", "*.model", "*.txt")
CHECKPOINT_FILES = (*TOKENIZER_FILES, "*.safetensors")


class Slot(NamedTuple):
    """A place in a group of ``conf/`` (and section of params.yaml) that may name a repository of the hub.

    ``section`` has the keys of the mapping with ``repository`` and ``revision``, a mapping of revisions having one for
    each repository of an organisation. ``files`` of None is a data set, ``axes`` of () means that all read it, and
    ``where`` has keys and the value that they must have, or the repository is not read.
    """

    group: str
    section: tuple[str, ...]
    repository: str
    revision: str = "revision"
    files: tuple[str, ...] | None = None
    axes: tuple[str, ...] = ()
    where: tuple[tuple[str, ...], str] | None = None


CLASSIFIER, REWARD, SIMILARITY = ("novelty", "classifier"), ("novelty", "reward"), ("inverse_entropy", "similarity")
DEBERTA, SKYWORK = ((*CLASSIFIER, "kind"), "deberta"), ((*REWARD, "kind"), "skywork")
ENTAILMENT, EMBEDDING = (("partition", "rule"), "entailment"), ((*SIMILARITY, "kind"), "embedding")
SLOTS = (
    Slot("model", (), "checkpoint", files=CHECKPOINT_FILES),
    Slot("prompts", ("novelty",), "source", axes=("novelty",)),
    Slot("prompts", ("instructions",), "source"),
    Slot("prompts", ("questions",), "source", axes=QUESTION_AXES),
    Slot("evaluate", ("partition", "judge"), "checkpoint", "revision", CHECKPOINT_FILES, QUESTION_AXES, ENTAILMENT),
    Slot("evaluate", SIMILARITY, "checkpoint", "revision", CHECKPOINT_FILES, ("inv_entropy",), EMBEDDING),
    Slot("evaluate", CLASSIFIER, "checkpoint", "revision", CHECKPOINT_FILES, ("novelty",), DEBERTA),
    Slot("evaluate", CLASSIFIER, "tokenizer", "tokenizer_revision", TOKENIZER_FILES, ("novelty",), DEBERTA),
    Slot("evaluate", REWARD, "checkpoint", "revision", CHECKPOINT_FILES, ("novelty",), SKYWORK),
    Slot("selfreflect", ("judge",), "checkpoint", files=CHECKPOINT_FILES, axes=("selfreflect",)),
    Slot("retention", (), "source", "revisions", axes=("retention",)),
    Slot("paloma", (), "source", axes=("paloma",)),
)


@dataclass(frozen=True)
class HubSource:
    """A repository that a file of ``conf/`` or params.yaml names."""

    keys: tuple[str, ...]
    """Of the revision in the file."""
    repository: str
    revision: str | None
    """Commit, branch or tag; None for the default branch."""
    kind: hub.Kind
    files: tuple[str, ...] | None = None
    """Patterns of the files that are read; None for all."""
    path: Path | None = None
    """The file of ``conf/``."""

    @property
    def key(self) -> str:
        """Dotted key of the revision."""
        return ".".join(self.keys)

    def __str__(self) -> str:
        return f"{self.path}: {self.key} ({self.repository})"


def _value(values: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def _named(slot: Slot, values: Any, **place: Any) -> Iterator[HubSource]:
    """The repositories that the values of a group have in a slot; ``place``: further fields of HubSource."""
    section = _value(values, slot.section)
    repository, revision = _value(section, (slot.repository,)), _value(section, (slot.revision,))
    if not isinstance(repository, str) or is_local_path(repository):
        return
    keys, kind = (*slot.section, slot.revision), "dataset" if slot.files is None else "model"
    if not isinstance(revision, Mapping):
        yield HubSource(keys, repository, revision, kind, slot.files, **place)
        return
    for task, commit in revision.items():
        yield HubSource((*keys, task), task_data_set(repository, task), commit, kind, slot.files, **place)


def conf_sources(conf: Path, axes: Collection[str] = tuple(AXES)) -> Iterator[HubSource]:
    """What the files of ``conf/`` take from the hub for ``axes``, group by group. Raises ConfigError."""
    for group in dict.fromkeys(slot.group for slot in SLOTS):
        slots = [slot for slot in SLOTS if slot.group == group and (not slot.axes or set(slot.axes) & set(axes))]
        for path in sorted((conf / group).glob("*.yaml")):
            try:
                values = yaml.safe_load(path.read_text())
            except yaml.YAMLError as error:
                raise ConfigError(f"{path} is not valid YAML ({' '.join(str(error).split())})") from None
            for slot in slots:
                yield from _named(slot, values, path=path)


def downloads(params: Params) -> list[HubSource]:
    """What the DAG takes from the hub; what only axes need that are switched off is not among it."""
    values = asdict(params)
    retention = values["retention"]
    retention["revisions"] = {task: retention["revisions"].get(task) for task in retention["tasks"]}
    found = []
    for slot in SLOTS:
        if slot.axes and not set(slot.axes) & set(params.axes):
            continue
        if slot.group == "model":
            sections = {("models", name): model for name, model in values["models"].items()}
        else:
            sections = {(slot.group,): values[slot.group]}
        for keys, section in sections.items():
            if slot.where is None or _value(section, slot.where[0]) == slot.where[1]:
                found += [replace(source, keys=(*keys, *source.keys)) for source in _named(slot, section)]
    patterns = tuple(slice_patterns(params.paloma.slices, params.paloma.split))
    return [replace(source, files=patterns) if source.key == "paloma.revision" else source for source in found]


def unpinned(params: Params) -> list[str]:
    """Dotted keys of what ``params`` takes from the hub without naming a commit."""
    return [source.key for source in downloads(params) if not hub.is_commit(source.revision)]


def write_revision(source: HubSource, commit: str) -> None:
    """Replace one revision in its file and nothing else. Raises ConfigError where the file has no such key."""
    text = source.path.read_text()
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    for key in source.keys:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        node = next((value for name, value in pairs if name.value == key), None)
        if node is None:
            raise ConfigError(f"{source.path}: there is no key {source.key} to write the commit to")
    start, end = node.start_mark.index, node.end_mark.index
    # Quoted, because a commit of digits alone would be a number. A key without a value has no blank to follow.
    value = f'"{commit}"' if start < end else f' "{commit}"'
    with atomic_path(source.path) as temporary:
        temporary.write_text(text[:start] + value + text[end:])


def pin(
    conf: Path, update: bool, on_pinned: Callable[[HubSource, str], None], axes: Collection[str] = tuple(AXES)
) -> list[str]:
    """Write commits into ``conf/``, with ``update`` also of what has one; a sentence for each that was not reached."""
    failures = []
    for source in list(conf_sources(conf, axes)):
        pinned = hub.is_commit(source.revision)
        if pinned and not update:
            continue
        try:
            commit = hub.current_commit(source.repository, None if pinned else source.revision, source.kind)
            write_revision(source, commit)
        except PipelineError as error:
            failures.append(f"{source}: {error}" + (f"; it stays at {source.revision}" if pinned else ""))
        else:
            on_pinned(source, commit)
    return failures


def main(conf: Path, update: bool, params: Path) -> None:
    """Pin. Raises ConfigError if anything is left without a commit."""
    if not (conf / "model").is_dir():
        raise ConfigError(f"--conf: {conf} has no directory model")
    axes = load_params(params).axes if params.exists() else list(AXES)
    if failures := pin(conf, update, lambda source, commit: print(f"{source}: {commit}"), axes):
        problem = f"{len(failures)} source(s) not pinned (what was reached is written; run it again for the rest):"
        raise ConfigError("\n  ".join([problem, *failures]))
    print("every checkpoint and data set of the hub is pinned; after a change, `make params` takes it over")
    if off := [axis for axis in AXES if axis not in axes]:
        print(f"left alone: what only {', '.join(off)} would need ({params}: axes)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conf", type=Path, default=Path("conf"), help="Hydra configuration directory")
    parser.add_argument("--update", action="store_true", help="move what is pinned to the current commit, too")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="whose axes count: %(default)s")
    run_command(main, parser.parse_args())
