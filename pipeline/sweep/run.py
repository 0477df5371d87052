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
from pipeline.runs.dvc_process import failed_stages, forget_dead_processes, last_error, start_dvc, wait_or_end
from pipeline.runs.workspace import prepare_workspace
from pipeline.sweep.cells import Cell, make_cell
from pipeline.sweep.settings import SweepConfig, cell_overrides

SECONDS_BETWEEN_TRIES = 1.0
"""How often a cell that waits for a GPU looks again."""


@dataclass(frozen=True)
class Record:
    """How a job went.

    Attributes:
        cell: Directory of the cell; empty where the settings could not be composed.
        status: "finished" (now), "skipped" (before), "failed", "busy" (another launcher runs it), "interrupted";
            of a plan "new", "unfinished" or "finished".
        seconds: Wall clock of this job.
        stage: The stages that failed.
        log: Path of all output.
        stages: Number of stages that the cell takes; the tokens, hours and bytes are estimates for those of them
            that are not done.
        clock: What the GPU hours are hours of.
    """

    cell: str
    overrides: tuple[str, ...]
    status: str
    seconds: float = 0.0
    stage: str = ""
    reason: str = ""
    log: str = ""
    stages: int = 0
    stages_done: int = 0
    tokens: float = 0.0
    gpu_hours: float = 0.0
    disk_bytes: float = 0.0
    clock: str = ""


def write_record(directory: Path, record: Record) -> None:
    """Write ``record.json``."""
    write_json(directory / "record.json", asdict(record))


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
    if gpus is None:
        yield {}
        return
    while True:
        for gpu in gpus:
            with contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(exclusive(directory / f"gpu-{gpu}", f"a cell on GPU {gpu}"))
                except BusyError:
                    continue
                yield {"CUDA_VISIBLE_DEVICES": str(gpu)}
                return
        time.sleep(SECONDS_BETWEEN_TRIES)


def _planned(cell: Cell, directory: Path, project: Path, config: SweepConfig) -> Record:
    """Cost of the stages whose outputs are not all there."""
    number = len(cell.stages)
    if is_finished(cell, directory, project):
        return Record(str(directory), cell.overrides, "finished", stages=number, stages_done=number)
    path = Path(config.rates) if config.rates else None
    rates = read_rates(path) if path else None
    prices = Prices(cell.params, project, rates)
    nodes = [cell.graph[name] for name in cell.stages]
    left = [node for node in nodes if not all((directory / output).exists() for output in node.outputs)]
    cost = sum((node.cost(prices) for node in left), Cost())
    return Record(
        str(directory),
        cell.overrides,
        "unfinished" if directory.exists() else "new",
        stages=number,
        stages_done=number - len(left),
        tokens=cost.prompt_tokens + cost.completion_tokens,
        gpu_hours=cost.gpu_hours,
        disk_bytes=cost.disk_bytes,
        clock=clock(rates, path),
    )


def _reproduce(cell: Cell, directory: Path, project: Path, config: SweepConfig) -> Record:
    """Run DVC in the cell's workspace, whose lock this process holds."""
    started, log = time.monotonic(), directory / "run.log"
    # A cell that is no longer what it was must not count as finished while it runs.
    (directory / "finished.json").unlink(missing_ok=True)
    identity = cell.full_identity(project)
    prepare_workspace(directory, project, dict(cell.values), cell.overrides, Path(config.cache), cell.sources)
    write_json(
        directory / "cell.json", {"overrides": cell.overrides, "targets": cell.targets, "parameters": cell.parameters}
    )
    with log.open("a") as file:
        file.write(f"--- {datetime.now(UTC).isoformat(timespec='seconds')} {' '.join(cell.overrides)}\n")
        before = file.tell()
    forget_dead_processes(directory)
    try:
        with claimed_gpu(config.gpus, Path(config.directory) / "jobs") as environment:
            process = start_dvc(directory, ["repro", "--keep-going", *cell.targets], log, environment)
            status = wait_or_end(process)
    except BaseException:
        # Ctrl-C, SIGTERM, or a launcher that ends its workers: what is done stays and the next run goes on from it.
        stopped = Record(str(directory), cell.overrides, "interrupted", time.monotonic() - started, log=str(log))
        write_record(directory, stopped)
        raise
    seconds = time.monotonic() - started
    if status == 0:
        record = Record(str(directory), cell.overrides, "finished", seconds, log=str(log))
        write_record(directory, record)
        # Last: a cell that counts as finished is never written to again.
        write_json(directory / "finished.json", {"identity": identity, "seconds": round(seconds, 1)})
        return record
    with log.open() as file:
        file.seek(before)
        text = file.read()
    stages = ", ".join(failed_stages(text))
    record = Record(str(directory), cell.overrides, "failed", seconds, stages, last_error(text), str(log))
    write_record(directory, record)
    return record


def run_cell(cell: Cell, project: Path, config: SweepConfig) -> Record:
    """Run one cell, or estimate it where ``config.plan`` is set."""
    directory = Path(config.directory) / config.name / cell.identity
    if config.plan:
        return _planned(cell, directory, project, config)
    if is_finished(cell, directory, project):
        return Record(str(directory), cell.overrides, "skipped")
    try:
        with exclusive(directory, f"sweep cell {directory.name}"):
            if is_finished(cell, directory, project):
                return Record(str(directory), cell.overrides, "skipped")
            return _reproduce(cell, directory, project, config)
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
    write_record(output, record)
    return record
