"""Data sets of the tasks: from the hub at a pinned commit, or local copies."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.retention import RetentionConfig, task_data_set
from pipeline.core.retention.tasks import TASKS, RetentionData
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.repository import fetched, pinned_commit, reading

if TYPE_CHECKING:
    from datasets import DatasetDict


def local_folder(config: RetentionConfig, task: str) -> Path | None:
    """Folder of a task's data set; None where the source is an organisation of the hub."""
    source = Path(config.source)
    if not source.is_dir():
        # Names of organisations have no slash.
        if "/" in config.source or source.exists():
            raise ConfigError(f"retention.source: {config.source} is not a directory")
        return None
    if not (source / task).is_dir():
        found = ", ".join(sorted(path.name for path in source.iterdir() if path.is_dir())) or "no folder"
        raise ArtifactError(f"retention.source: {source} has no folder {task}; it has {found}")
    return source / task


def pinned_revisions(config: RetentionConfig) -> dict[str, str | None]:
    """Commit of each task's data set on the hub; None for local folders. Raises ArtifactError."""
    return {
        task: None
        if local_folder(config, task) is not None
        else pinned_commit(task_data_set(config.source, task), config.revisions.get(task), "dataset")
        for task in config.tasks
    }


def read_task(config: RetentionConfig, task: str, revisions: Mapping[str, str | None]) -> "DatasetDict":
    """The splits of a task that its items and few-shot examples come from; a local folder is a copy of the hub's
    repository or has a file of JSON lines per split (``train.jsonl``), with the hub's column names."""
    import datasets

    datasets.disable_progress_bars()
    folder, wanted = local_folder(config, task), TASKS[task]
    dataset = str(folder or task_data_set(config.source, task))
    if folder is None:
        folder = fetched(dataset, revisions[task], "dataset")
    # A cache of its own: the package's does not notice that the files of a directory have changed.
    with tempfile.TemporaryDirectory() as cache:
        data = _read_folder(folder, wanted, cache_dir=cache, keep_in_memory=True)
    _check_task(dataset, task, wanted, data)
    return data


def _read_folder(folder: Path, wanted: RetentionData, **options: Any) -> "DatasetDict":
    import datasets

    if files := {path.stem: str(path) for path in sorted(folder.glob("*.jsonl"))}:
        data = datasets.DatasetDict()
        # One by one: together, splits must have the same columns, and one called dev becomes the validation split.
        for split in files.keys() & {wanted.split, wanted.examples_split}:
            with reading(files[split]):
                data[split] = datasets.load_dataset("json", data_files={split: files[split]}, split=split, **options)
        return data
    with reading(str(folder)):
        names = datasets.get_dataset_config_names(str(folder))
        return datasets.load_dataset(str(folder), wanted.hub_config if wanted.hub_config in names else None, **options)


def _check_task(dataset: str, task: str, wanted: RetentionData, data: "DatasetDict") -> None:
    """The splits are there with their columns. Raises ArtifactError."""
    for split in filter(None, (wanted.split, wanted.examples_split)):
        if split not in data:
            raise ArtifactError(f"{dataset}: {task} needs the split {split!r}; found: {', '.join(data) or 'none'}")
        found = data[split].column_names
        if missing := [column for column in wanted.columns if column not in found]:
            raise ArtifactError(
                f"{dataset}: {task} needs the column {missing[0]!r} in the split {split!r}; it has {', '.join(found)}"
            )
