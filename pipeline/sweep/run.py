"""One job of a sweep: run the cell unless it is finished, and say how it went."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipeline.artifacts.locks import exclusive
from pipeline.artifacts.storage import read_json, write_json
from pipeline.errors import BusyError, PipelineError
from pipeline.estimates.cost import Cost, clock
from pipeline.estimates.prices import Prices
from pipeline.estimates.rates import read_rates
from pipeline.runs.dvc_process import end, failed_stages, last_error, start_dvc, terminated_like_interrupted
from pipeline.sweep.cells import Cell, make_cell
from pipeline.sweep.settings import SweepConfig, cell_overrides
from pipeline.sweep.workspace import prepare_workspace

SECONDS_BETWEEN_TRIES = 1.0
"""How often a cell that waits for a GPU looks again."""


@dataclass(frozen=True)
class Record:
    """How a job went."""

    cell: str
    """Directory of the cell; empty where the settings could not be composed."""
    overrides: tuple[str, ...]
    status: str
    """One of "finished" (now), "skipped" (before), "failed", "busy" (another launcher runs it) and "interrupted"; of a
    plan "new", "unfinished" or "finished"."""
    seconds: float = 0.0
    stage: str = ""
    """The stages that failed."""
    reason: str = ""
    log: str = ""
    stages: int = 0
    """Of a plan: number of stages that the cell takes; the figures below are estimates for those that are not done."""
    stages_done: int = 0
    tokens: float = 0.0
    gpu_hours: float = 0.0
    disk_bytes: float = 0.0
    clock: str = ""
    """What the GPU hours are hours of."""


def write_record(directory: Path, record: Record) -> Record:
    """Write ``record.json``; gives the record back."""
    write_json(directory / "record.json", asdict(record))
    return record


def read_record(path: Path) -> Record:
    """Read what ``write_record`` wrote. Raises ArtifactError."""
    values = read_json(path)
    return Record(**{**values, "overrides": tuple(values["overrides"])})


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


def _planned(cell: Cell, directory: Path, project: Path, config: SweepConfig) -> Record:
    """Cost of the stages whose outputs are not all there."""
    path = Path(config.rates) if config.rates else None
    rates = read_rates(path) if path else None
    prices, left = Prices(cell.params, project, rates), []
    finished = is_finished(cell, directory, project)
    if not finished:
        nodes = map(cell.graph.__getitem__, cell.stages)
        left = [node for node in nodes if not all((directory / output).exists() for output in node.outputs)]
    cost = sum((node.cost(prices) for node in left), Cost())
    return Record(
        str(directory),
        cell.overrides,
        "finished" if finished else "unfinished" if directory.exists() else "new",
        stages=len(cell.stages),
        stages_done=len(cell.stages) - len(left),
        tokens=cost.prompt_tokens + cost.completion_tokens,
        gpu_hours=cost.gpu_hours,
        disk_bytes=cost.disk_bytes,
        clock=clock(rates, path),
    )


def _reproduce(cell: Cell, directory: Path, project: Path, config: SweepConfig) -> Record:
    """Run DVC in the cell's workspace, whose lock this process holds."""
    started, log = time.monotonic(), directory / "run.log"

    def ended(status: str, stage: str = "", reason: str = "") -> Record:
        seconds = time.monotonic() - started
        return write_record(directory, Record(str(directory), cell.overrides, status, seconds, stage, reason, str(log)))

    # A cell that is no longer what it was must not count as finished while it runs.
    (directory / "finished.json").unlink(missing_ok=True)
    identity = cell.full_identity(project)
    prepare_workspace(directory, project, dict(cell.values), cell.overrides, Path(config.cache), cell.sources)
    written = {"overrides": cell.overrides, "targets": cell.targets, "parameters": cell.parameters}
    write_json(directory / "cell.json", written)
    with log.open("a") as file:
        file.write(f"--- {datetime.now(UTC).isoformat(timespec='seconds')} {' '.join(cell.overrides)}\n")
        before = file.tell()
    try:
        with claimed_gpu(config.gpus, Path(config.directory) / "jobs") as environment, terminated_like_interrupted():
            process = start_dvc(directory, ["repro", "--keep-going", *cell.targets], log, environment)
            try:
                status = process.wait()
            except BaseException:
                end(process)
                raise
    except BaseException:
        # Ctrl-C, SIGTERM, or a launcher that ends its workers: what is done stays and the next run goes on from it.
        ended("interrupted")
        raise
    if status != 0:
        text = log.read_bytes()[before:].decode(errors="replace")
        return ended("failed", ", ".join(failed_stages(text)), last_error(text))
    record = ended("finished")
    # Last: a cell that counts as finished is never written to again.
    write_json(directory / "finished.json", {"identity": identity, "seconds": round(record.seconds, 1)})
    return record


def run_cell(cell: Cell, project: Path, config: SweepConfig) -> Record:
    """Run one cell, or estimate it where ``config.plan`` is set."""
    directory = Path(config.directory) / config.name / cell.identity
    if config.plan:
        return _planned(cell, directory, project, config)
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
