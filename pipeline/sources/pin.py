"""Pin what comes from the hub to commits: ``python -m pipeline.sources.pin`` writes them into ``conf/``.

Every checkpoint of ``conf/model`` and every data set and evaluator of the other groups gets the commit
that its default branch (or the branch or tag named so far) is at now. Comments and layout of the files stay.
What only axes need that are switched off in params.yaml is left alone. ``--check`` asks nothing and lists what
has no commit yet. What cannot be reached is reported at the end; the others are pinned all the same.
"""

import argparse
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

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


@dataclass(frozen=True)
class Slot:
    """A place in a group of ``conf/`` that may name a repository of the hub.

    Attributes:
        group: The group; also the section of params.yaml, but for models.
        section: Keys of the mapping that has the next two.
        repository: Key of the repository.
        revision: Key of its revision. A mapping of revisions has one for each repository of an organisation.
        files: Patterns of a model's files that are read; None for a data set.
        axes: Those that read it; none means that all do.
        where: Keys and the value that they must have, or the repository is not read.
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
    """A repository that a file of ``conf/`` or params.yaml names.

    Attributes:
        keys: Keys of the revision in the file.
        repository: OWNER/NAME.
        revision: Commit, branch or tag; None for the default branch.
        kind: What the repository holds.
        files: Patterns of the files that are read; None for all.
        path: The file of ``conf/``.
    """

    keys: tuple[str, ...]
    repository: str
    revision: str | None
    kind: Literal["model", "dataset"]
    files: tuple[str, ...] | None = None
    path: Path | None = None

    @property
    def key(self) -> str:
        """Dotted key of the revision."""
        return ".".join(self.keys)

    def __str__(self) -> str:
        return f"{self.path}: {self.key} ({self.repository})"


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a full commit, which never moves."""
    return revision is not None and re.fullmatch("[0-9a-f]{40}", revision) is not None


def _value(values: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def _filled(slot: Slot, values: Any, **place: Any) -> Iterator[HubSource]:
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
    """What the files of ``conf/`` take from the hub for ``axes``, group by group.

    Raises:
        ConfigError: A file is not YAML.
    """
    for group in dict.fromkeys(slot.group for slot in SLOTS):
        slots = [slot for slot in SLOTS if slot.group == group and (not slot.axes or set(slot.axes) & set(axes))]
        for path in sorted((conf / group).glob("*.yaml")):
            try:
                values = yaml.safe_load(path.read_text())
            except yaml.YAMLError as error:
                raise ConfigError(f"{path} is not valid YAML ({' '.join(str(error).split())})") from None
            for slot in slots:
                yield from _filled(slot, values, path=path)


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
                found += [replace(source, keys=(*keys, *source.keys)) for source in _filled(slot, section)]
    patterns = tuple(slice_patterns(params.paloma.slices, params.paloma.split))
    return [replace(source, files=patterns) if source.key == "paloma.revision" else source for source in found]


def write_revision(source: HubSource, commit: str) -> None:
    """Replace one revision in its file and nothing else.

    Raises:
        ConfigError: The file has no such key.
    """
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


def unpinned(params: Params) -> list[str]:
    """Dotted keys of what ``params`` takes from the hub without naming a commit."""
    return [source.key for source in downloads(params) if not is_commit(source.revision)]


def pin(
    conf: Path, update: bool, on_pinned: Callable[[HubSource, str], None], axes: Collection[str] = tuple(AXES)
) -> list[str]:
    """Write the current commit of what has none yet, or with ``update`` of everything, into ``conf/``.

    Args:
        conf: The directory.
        update: Move what is pinned to the current commit of the default branch, too.
        on_pinned: Called with each source whose commit was written.
        axes: What only others need is left alone.

    Returns:
        One sentence per repository that has no commit now because it could not be reached.
    """
    failures = []
    for source in list(conf_sources(conf, axes)):
        if is_commit(source.revision) and not update:
            continue
        try:
            branch = None if is_commit(source.revision) else source.revision
            commit = hub.current_commit(source.repository, branch, source.kind)
            write_revision(source, commit)
        except PipelineError as error:
            kept = f"; it stays at {source.revision}" if is_commit(source.revision) else ""
            failures.append(f"{source}: {error}{kept}")
        else:
            on_pinned(source, commit)
    return failures


def main(conf: Path, check: bool, update: bool, params: Path) -> None:
    """Pin, or with ``check`` list what is not pinned. Raises ConfigError if anything is left without a commit."""
    if not (conf / "model").is_dir():
        raise ConfigError(f"--conf: {conf} has no directory model")
    axes = load_params(params).axes if params.exists() else list(AXES)
    if check:
        failures = [str(source) for source in conf_sources(conf, axes) if not is_commit(source.revision)]
        problem, advice = "not pinned to a commit", "`make pin` pins them on a machine with network"
    else:
        failures = pin(conf, update, lambda source, commit: print(f"{source}: {commit}"), axes)
        problem, advice = "not pinned", "what was reached is written; run it again for the rest"
    if failures:
        raise ConfigError("\n  ".join([f"{len(failures)} source(s) {problem} ({advice}):", *failures]))
    print("every checkpoint and data set of the hub is pinned; after a change, `make params` takes it over")
    if off := [axis for axis in AXES if axis not in axes]:
        print(f"left alone: what only {', '.join(off)} would need ({params}: axes)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conf", type=Path, default=Path("conf"), help="Hydra configuration directory")
    parser.add_argument("--check", action="store_true", help="list what has no commit; ask and write nothing")
    parser.add_argument("--update", action="store_true", help="move what is pinned to the current commit, too")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="whose axes count: %(default)s")
    run_command(main, parser.parse_args())
