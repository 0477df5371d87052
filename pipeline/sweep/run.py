"""One job of a sweep: a cell's DVC workspace beside the checkout, run unless it is finished.

A workspace links to code and data, and shares the cache of all cells, from which DVC takes what another has made.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipeline.artifacts.locks import exclusive
from pipeline.artifacts.storage import read_json, write_if_changed, write_json
from pipeline.command import RESUMES
from pipeline.compose import write_files
from pipeline.errors import ArtifactError, BusyError, PipelineError
from pipeline.runs.dvc_process import (
    failed_stages,
    last_error,
    remove_half_written,
    start_dvc,
    terminated_like_interrupted,
    wait_for,
)
from pipeline.sweep.cells import Cell, make_cell
from pipeline.sweep.settings import SweepConfig, cell_overrides, override_key

SECONDS_BETWEEN_TRIES = 1.0  # how often a cell that waits for a GPU looks again
LINKED = ("pipeline", "conf", "models", "data")  # what every workspace takes from the project


@dataclass(frozen=True)
class Record:
    """How a job went."""

    cell: str  # its directory; empty where the settings could not be composed
    overrides: tuple[str, ...]
    status: str
    """One of "finished" (now), "skipped" (before), "failed", "busy" (another launcher runs it) and "interrupted"."""
    seconds: float = 0.0
    stage: str = ""
    reason: str = ""
    log: str = ""


def write_record(directory: Path, record: Record) -> Record:
    write_json(directory / "record.json", asdict(record))
    return record


def read_record(path: Path) -> Record:
    """Read what ``write_record`` wrote. Raises ArtifactError."""
    values = read_json(path)
    return Record(**{**values, "overrides": tuple(values["overrides"])})


def override_columns(overrides: Sequence[str]) -> dict[str, str]:
    """Overrides as columns of a table."""
    return {override_key(item): item.partition("=")[2] for item in overrides}


def _link(place: Path, target: Path) -> None:
    """A relative link, so that a checkout can be moved as a whole."""
    if place.exists() and not place.is_symlink():
        raise ArtifactError(f"{place} is in the way of a link to {target}; remove or rename it")
    place.unlink(missing_ok=True)
    place.symlink_to(os.path.relpath(target, place.parent.resolve()))


def prepare_workspace(directory: Path, project: Path, cell: Cell, cache: Path) -> None:
    """Make the workspace or bring it up to date. Raises ArtifactError for a file where a link must be."""
    directory.mkdir(parents=True, exist_ok=True)
    tops = {Path(source).parts[0] for source in cell.sources if not Path(source).is_absolute() and ".." not in source}
    for name in sorted(name for name in {*LINKED, *tops} if not name.endswith(".yaml")):
        if (project / name).exists():
            _link(directory / name, project / name)
    write_files(directory, dict(cell.values), list(cell.overrides))
    for name in ("dvc.yaml", ".dvcignore"):
        write_if_changed(directory / name, (project / name).read_text() if (project / name).exists() else "")
    initialise_dvc(directory, cache)


def initialise_dvc(directory: Path, cache: Path) -> None:
    """Do what `dvc init --no-scm` does, with a cache elsewhere and without the seconds that it takes."""
    location = os.path.relpath(cache.resolve(), (directory / ".dvc").resolve())
    config = f"[core]\n    analytics = false\n    no_scm = True\n[cache]\n    dir = {location}\n"
    write_if_changed(directory / ".dvc" / "config", config)


def is_finished(cell: Cell, directory: Path, project: Path) -> bool:
    """Whether the cell was finished in its present state and its targets' outputs are still there."""
    path = directory / "finished.json"
    if not path.exists() or read_json(path)["identity"] != cell.full_identity(project):
        return False
    return all((directory / output).exists() for name in cell.targets for output in cell.graph[name].outputs)


@contextlib.contextmanager
def claimed_gpu(gpus: Sequence[int] | None, directory: Path) -> Iterator[dict[str, str]]:
    """Wait for the first free GPU and yield the environment that shows a process that one alone."""
    while gpus is not None:
        for gpu in gpus:
            with contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(exclusive(directory / f"gpu-{gpu}", f"a cell on GPU {gpu}"))
                except BusyError:
                    continue
                yield {"CUDA_VISIBLE_DEVICES": str(gpu)}
                return
        time.sleep(SECONDS_BETWEEN_TRIES)
    yield {}


def _reproduce(cell: Cell, directory: Path, project: Path, config: SweepConfig) -> Record:
    """Run DVC in the cell's workspace, whose lock this process holds."""
    started, log = time.monotonic(), directory / "run.log"

    def ended(status: str, stage: str = "", reason: str = "") -> Record:
        seconds = time.monotonic() - started
        return write_record(directory, Record(str(directory), cell.overrides, status, seconds, stage, reason, str(log)))

    # A cell that is no longer what it was must not count as finished while it runs.
    (directory / "finished.json").unlink(missing_ok=True)
    identity = cell.full_identity(project)
    prepare_workspace(directory, project, cell, Path(config.cache))
    remove_half_written(directory)
    written = {"overrides": cell.overrides, "targets": cell.targets, "parameters": cell.parameters}
    write_json(directory / "cell.json", written)
    with log.open("a") as file:
        file.write(f"--- {datetime.now(UTC).isoformat(timespec='seconds')} {' '.join(cell.overrides)}\n")
        before = file.tell()
    try:
        with claimed_gpu(config.gpus, Path(config.directory) / "jobs") as environment, terminated_like_interrupted():
            status = wait_for(start_dvc(directory, ["repro", "--keep-going", *cell.targets], log, environment))
    except BaseException:
        # Ctrl-C, SIGTERM, or a launcher that ends its workers: what is done stays and the next run goes on from it.
        ended("interrupted")
        raise
    if status != 0:
        text = log.read_bytes()[before:].decode(errors="replace")
        if status < 0 or f"terminated; {RESUMES}" in text:
            # Slurm signals DVC and the stage, not this process alone: the cell is not failed, it goes on elsewhere.
            return ended("interrupted")
        return ended("failed", ", ".join(failed_stages(text)), last_error(text))
    record = ended("finished")
    # Last: a cell that counts as finished is never written to again.
    write_json(directory / "finished.json", {"identity": identity, "seconds": round(record.seconds, 1)})
    return record


def run_cell(cell: Cell, project: Path, config: SweepConfig) -> Record:
    """Run one cell, unless it is finished or another process runs it."""
    directory = Path(config.directory) / config.name / cell.identity
    skipped = Record(str(directory), cell.overrides, "skipped")
    if is_finished(cell, directory, project):
        return skipped
    try:
        with exclusive(directory, f"sweep cell {directory.name}"):
            finished = is_finished(cell, directory, project)
            return skipped if finished else _reproduce(cell, directory, project, config)
    except BusyError as error:
        return Record(str(directory), cell.overrides, "busy", reason=str(error))


def run_job(task_overrides: Sequence[str], config: SweepConfig, project: Path, output: Path) -> Record:
    """One job: compose, run, and write ``record.json`` to the job's own directory. Errors of the user are recorded."""
    try:
        cell = make_cell(cell_overrides(task_overrides, config), config.targets, project)
        record = run_cell(cell, project, config)
    except (PipelineError, OSError) as error:
        stage = "workspace" if isinstance(error, OSError) else "composition"
        record = Record("", tuple(task_overrides), "failed", stage=stage, reason=str(error))
    except BaseException:
        write_record(output, Record("", tuple(task_overrides), "interrupted"))
        raise
    return write_record(output, record)
