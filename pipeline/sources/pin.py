"""Pin what comes from the hub to commits: ``python -m pipeline.sources.pin`` writes them into ``conf/``.

Every checkpoint of ``conf/model`` and every data set and evaluator of the other groups gets the commit
that its default branch (or the branch or tag named so far) is at now. Comments and layout of the files stay.
What only axes need that are switched off in params.yaml is left alone. ``--check`` asks nothing and lists what
has no commit yet. What cannot be reached is reported at the end; the others are pinned all the same.
"""

import argparse
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from pipeline.artifacts.storage import atomic_path
from pipeline.command import run_command
from pipeline.config.evaluation import AXES, QUESTION_AXES
from pipeline.config.params import Params, load_params
from pipeline.config.retention import is_local_path, task_data_set
from pipeline.errors import ConfigError, PipelineError
from pipeline.sources import repository as hub

Kind = Literal["model", "dataset"]
Keys = tuple[str, ...]

# For each group of conf/: keys of the repository, keys of its revision, what it is. Of a mapping of revisions
# each key names a repository of the organisation. What is in a group or section called like an axis is for that axis.
GROUPS: dict[str, tuple[tuple[Keys, Keys, Kind], ...]] = {
    "model": ((("checkpoint",), ("revision",), "model"),),
    "prompts": (
        (("novelty", "source"), ("novelty", "revision"), "dataset"),
        (("instructions", "source"), ("instructions", "revision"), "dataset"),
        (("questions", "source"), ("questions", "revision"), "dataset"),
    ),
    "evaluate": (
        (("novelty", "classifier", "checkpoint"), ("novelty", "classifier", "revision"), "model"),
        (("novelty", "classifier", "tokenizer"), ("novelty", "classifier", "tokenizer_revision"), "model"),
        (("novelty", "reward", "checkpoint"), ("novelty", "reward", "revision"), "model"),
        (("partition", "judge", "checkpoint"), ("partition", "judge", "revision"), "model"),
        (
            ("inverse_entropy", "similarity", "checkpoint"),
            ("inverse_entropy", "similarity", "revision"),
            "model",
        ),
    ),
    "retention": ((("source",), ("revisions",), "dataset"),),
    "paloma": ((("source",), ("revision",), "dataset"),),
}


@dataclass(frozen=True)
class ConfSource:
    """A repository that a file of ``conf/`` names.

    Attributes:
        path: The file.
        keys: Keys of the revision in it.
        repository: Repository of the hub.
        revision: Commit, branch or tag; None for the default branch.
        kind: What the repository holds.
    """

    path: Path
    keys: Keys
    repository: str
    revision: str | None
    kind: Kind

    def __str__(self) -> str:
        return f"{self.path}: {'.'.join(self.keys)} ({self.repository})"


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a full commit, which never moves."""
    return revision is not None and re.fullmatch("[0-9a-f]{40}", revision) is not None


def _is_hub(repository: Any) -> bool:
    return isinstance(repository, str) and not (
        is_local_path(repository) or repository.startswith("models/") or repository.endswith(".jsonl")
    )


def _value(values: Any, keys: Keys) -> Any:
    for key in keys:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def chosen_axes(params: Path) -> list[str]:
    """The axes that a params.yaml has switched on; all where there is no such file yet. Raises ConfigError."""
    return load_params(params).axes if params.exists() else list(AXES)


def conf_sources(conf: Path, axes: Collection[str] = AXES) -> Iterator[ConfSource]:
    """What the files of ``conf/`` take from the hub for ``axes``, group by group.

    Raises:
        ConfigError: A file is not YAML.
    """
    for group, entries in GROUPS.items():
        wanted = [entry for entry in entries if {group, entry[0][0]}.intersection(AXES) <= set(axes)]
        for path in sorted((conf / group).glob("*.yaml")):
            try:
                values = yaml.safe_load(path.read_text())
            except yaml.YAMLError as error:
                raise ConfigError(f"{path} is not valid YAML ({' '.join(str(error).split())})") from None
            for repository_keys, keys, kind in wanted:
                repository, revision = _value(values, repository_keys), _value(values, keys)
                if not _is_hub(repository):
                    continue
                if isinstance(revision, Mapping):
                    for name, own in revision.items():
                        yield ConfSource(path, (*keys, name), task_data_set(repository, name), own, kind)
                else:
                    yield ConfSource(path, keys, repository, revision, kind)


def write_revision(source: ConfSource, commit: str) -> None:
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
            raise ConfigError(f"{source.path}: there is no key {'.'.join(source.keys)} to write the commit to")
    start, end = node.start_mark.index, node.end_mark.index
    # Quoted, because a commit of digits alone would be a number. A key without a value has no blank to follow.
    value = f'"{commit}"' if start < end else f' "{commit}"'
    with atomic_path(source.path) as temporary:
        temporary.write_text(text[:start] + value + text[end:])


def hub_revisions(params: Params) -> dict[str, str | None]:
    """Revision of every checkpoint, data set and evaluator that the DAG takes from the hub, by dotted key.

    What only axes need that are switched off is not among them.
    """
    found = {
        f"models.{name}.revision": model.revision
        for name, model in params.models.items()
        if not is_local_path(model.checkpoint)
    }
    if not is_local_path(params.prompts.instructions.source):
        found["prompts.instructions.revision"] = params.prompts.instructions.revision
    if set(QUESTION_AXES) & set(params.axes):
        found |= _question_revisions(params)
    if "selfreflect" in params.axes and (judge := params.selfreflect.judge) and _is_hub(judge.checkpoint):
        found["selfreflect.judge.revision"] = judge.revision
    if "novelty" in params.axes:
        found |= _novelty_revisions(params)
    if "retention" in params.axes and not is_local_path(params.retention.source):
        revisions = params.retention.revisions
        found |= {f"retention.revisions.{task}": revisions.get(task) for task in params.retention.tasks}
    if "paloma" in params.axes and not is_local_path(params.paloma.source):
        found["paloma.revision"] = params.paloma.revision
    return found


def _question_revisions(params: Params) -> dict[str, str | None]:
    questions, partition = params.prompts.questions, params.evaluate.partition
    found = {} if is_local_path(questions.source) else {"prompts.questions.revision": questions.revision}
    if partition.rule == "entailment" and _is_hub(partition.judge.checkpoint):
        found["evaluate.partition.judge.revision"] = partition.judge.revision
    if "inv_entropy" in params.axes:
        texts = params.evaluate.inverse_entropy.similarity
        if texts.kind == "embedding" and _is_hub(texts.checkpoint) and not Path(str(texts.checkpoint)).is_dir():
            found["evaluate.inverse_entropy.similarity.revision"] = texts.revision
    return found


def _novelty_revisions(params: Params) -> dict[str, str | None]:
    prompts, evaluators = params.prompts.novelty, params.evaluate.novelty
    classifier, reward = evaluators.classifier, evaluators.reward
    found = {} if is_local_path(prompts.source) else {"prompts.novelty.revision": prompts.revision}
    if classifier.kind == "deberta":
        for repository, name in ((classifier.checkpoint, "revision"), (classifier.tokenizer, "tokenizer_revision")):
            if _is_hub(repository) and not Path(repository).is_dir():
                found[f"evaluate.novelty.classifier.{name}"] = getattr(classifier, name)
    if reward.kind == "skywork" and _is_hub(reward.checkpoint) and not Path(reward.checkpoint).is_dir():
        found["evaluate.novelty.reward.revision"] = reward.revision
    return found


def unpinned(params: Params) -> list[str]:
    """Dotted keys of what ``params`` takes from the hub without naming a commit."""
    return [key for key, revision in hub_revisions(params).items() if not is_commit(revision)]


def pin(
    conf: Path, update: bool, on_pinned: Callable[[ConfSource, str], None], axes: Collection[str] = AXES
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
            commit = hub.current_commit(
                source.repository, None if is_commit(source.revision) else source.revision, source.kind
            )
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
    axes = chosen_axes(params)
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


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conf", type=Path, default=Path("conf"), help="Hydra configuration directory")
    parser.add_argument("--check", action="store_true", help="list what has no commit; ask and write nothing")
    parser.add_argument("--update", action="store_true", help="move what is pinned to the current commit, too")
    parser.add_argument(
        "--params", type=Path, default=Path("params.yaml"), help="whose axes count (default: %(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments())
