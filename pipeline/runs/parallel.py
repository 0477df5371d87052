"""Run the DAG's stages side by side: ``python -m pipeline.runs.parallel --jobs 4 --gpus 0,1,2,3``.

Every stage that is out of date runs as ``dvc repro --single-item`` once what it waits for is done. DVC gives up its
lock while a stage's command runs. A plain ``dvc repro`` would walk through common ancestors, too, and ask to write what
another stage is reading.
"""

import os
import re
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

from rich.console import Console
from rich.live import Live
from rich.table import Table
from tqdm import tqdm

from pipeline.artifacts.locks import exclusive
from pipeline.command import RESUMES, run_command
from pipeline.commands import parse_arguments
from pipeline.compose import check
from pipeline.config.params import Params, load_params
from pipeline.config.training import DistributedConfig
from pipeline.dag.graph import StageGraph, stages_out_of_date
from pipeline.dag.launch import thread_share
from pipeline.dag.tables import why_off
from pipeline.errors import ConfigError, PipelineError
from pipeline.runs.dvc_process import end, last_error, remove_half_written, start_dvc

LOGS, SECONDS_BETWEEN_LOOKS = Path("outputs/parallel"), 0.1
BAR = re.compile(r"(\d+)/(\d+) \[[^<\]]*<([\d:?]+), *[\d.?]+(?:s/)?([a-z ]+?)(?:/s)?(?:, ([^\]]*))?\]")
"""A tqdm bar in a log: done, total, time left, unit, and what it says more."""


class Running(NamedTuple):
    """The process of a stage, its log and how long that was before, its GPUs, and when it started."""

    process: Popen
    log: Path
    log_size: int
    gpus: list[int]
    started: float

    def log_text(self, last: int | None = None) -> str:
        """What this run has written to its log, or the end of it, of so many bytes."""
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.log_size, size - last) if last else self.log_size)
            return file.read().decode(errors="replace")

    @property
    def progress(self) -> str:
        """What its last progress bar says, e.g. "step 120 of 300, loss=0.41, 01:05 left"; empty without one."""
        bars = BAR.findall(self.log_text(last=2000))
        if not bars:
            return ""
        done, total, left, unit, more = bars[-1]
        return ", ".join(filter(None, [f"{unit} {done} of {total}", more, f"{left} left" if left != "?" else ""]))


def log_of(name: str) -> Path:
    """The log of a stage, which runs append to."""
    return LOGS / f"{name.replace('@', '-')}.log"


class Runner:
    """Runs the stages ``pending`` of ``graph``, in its order, while there are places, and ``gpus`` if given."""

    def __init__(
        self,
        graph: StageGraph,
        pending: Collection[str],
        jobs: int,
        gpus: Collection[int] | None,
        distributed: DistributedConfig,
        off: Collection[str] = (),
    ):
        """``off`` are stages that only say so: those that are ready run in one DVC process."""
        self._graph, self._off, self._jobs = graph, off, jobs
        self._free_gpus = None if gpus is None else sorted(gpus)
        self._distributed = distributed
        self.waiting = [name for name in graph.closure(pending) if name in pending]
        self.running: dict[str, Running] = {}
        self.done: list[str] = []
        self.failed: list[str] = []
        self.skipped: list[str] = []

    def start_ready(self) -> None:
        """Start stages whose inputs and GPUs are there, up to the number of jobs."""
        reserved, unfinished = False, {*self.waiting, *self.running}
        ready = [name for name in self.waiting if not self._graph.upstream(name) & unfinished]
        together = [name for name in ready if name in self._off]
        for name in [name for name in ready if name not in together[1:]]:
            if len(self._processes) >= self._jobs:
                return
            device = "none" if name in self._off else self._graph[name].stage.device
            count, gpus = self._distributed.processes(device), list[int]()
            environment = thread_share(self._jobs * max(count, 1))
            if self._free_gpus is not None:
                if count and (reserved or len(self._free_gpus) < count):
                    # The free ones are kept for it, or a stage of several GPUs would never find them all free.
                    reserved = True
                    continue
                gpus, self._free_gpus = self._free_gpus[:count], self._free_gpus[count:]
                # A stage without a model sees none, rather than all.
                environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
            names, log = together if name in together else [name], log_of(name)
            log_size = log.stat().st_size if log.exists() else 0
            process = start_dvc(Path(), ["repro", "--single-item", *names], log, environment)
            for started in names:
                self.waiting.remove(started)
                self.running[started] = Running(process, log, log_size, gpus, time.monotonic())

    def finish(self, name: str, succeeded: bool) -> list[str]:
        """Note how a stage ended; of a failed one, the stages that are skipped with it."""
        if self._free_gpus is not None:
            self._free_gpus = sorted([*self._free_gpus, *self.running[name].gpus])
        del self.running[name]
        (self.done if succeeded else self.failed).append(name)
        behind = set() if succeeded else self._graph.downstream([name])
        lost = [other for other in self.waiting if other in behind]
        self.waiting = [other for other in self.waiting if other not in behind]
        self.skipped += lost
        return lost

    def _collect(self, console: Console) -> None:
        for name, running in list(self.running.items()):
            if (status := running.process.poll()) is None:
                continue
            lost = self.finish(name, status == 0)
            if status != 0:
                behind = f"; {len(lost)} stages that wait for it are skipped" if lost else ""
                line = f"FAILED {name}: {last_error(running.log_text())}; log: {running.log}{behind}"
            else:
                line = f"[{self._count}] {name}, {tqdm.format_interval(time.monotonic() - running.started)}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    @property
    def _processes(self) -> set[Popen]:
        """Of all that runs: stages that are off share one."""
        return {running.process for running in self.running.values()}

    @property
    def _count(self) -> str:
        """How many stages have ended, of all."""
        ended = len([*self.done, *self.failed, *self.skipped])
        return f"{ended}/{ended + len(self.running) + len(self.waiting)}"

    def _shown(self, started: float) -> Table:
        """A line for all stages, and one for each that runs: what it does, how far it is, and how long it will take."""
        lines = Table.grid(padding=(0, 2))
        for name, running in self.running.items():
            progress = running.progress or tqdm.format_interval(time.monotonic() - running.started)
            lines.add_row(name, ": ".join(filter(None, [self._graph[name].stage.description, progress])))
        whole = Table.grid()
        whole.add_row(f"{self._count} stages, {tqdm.format_interval(time.monotonic() - started)}")
        whole.add_row(lines)
        return whole

    def run(self) -> None:
        """Run until nothing is left; what runs is ended where this process is interrupted."""
        started, console = time.monotonic(), Console(stderr=True)
        with Live(get_renderable=lambda: self._shown(started), console=console, transient=True) as live:
            try:
                while self.waiting or self.running:
                    self.start_ready()
                    time.sleep(SECONDS_BETWEEN_LOOKS)
                    self._collect(live.console)
            except BaseException:
                end(*self._processes)
                print(f"interrupted; {RESUMES}", file=sys.stderr)
                raise


def plan_of(targets: Sequence[str], queued: Collection[str] = ()) -> tuple[Params, StageGraph, set[str]]:
    """The parameters, the DAG, and what may be out of date of all that leads up to ``targets``, or to everything. What
    a ``queued`` stage may be writing is: DVC cannot be asked for it."""
    check(Path("params.yaml"), Path("conf"))
    params = load_params(Path("params.yaml"))
    graph = StageGraph(params)
    wanted = set(graph.closure(graph.select(targets) if targets else list(graph)))
    busy = graph.downstream(wanted.intersection(queued))
    asked = wanted - busy
    # DVC takes several times as long for stages that are named as for all.
    found = stages_out_of_date(Path(), asked if busy else ()) if asked else set()
    stale = graph.downstream(found & wanted | busy) & wanted
    print(f"{len(stale)} of {len(wanted)} stages may be out of date", file=sys.stderr)
    return params, graph, stale


def main(targets: list[str], jobs: int, gpus: list[int] | None) -> None:
    """Run what is out of date, up to ``targets``, or everything. Raises PipelineError, at the end for failed stages."""
    with exclusive(Path(".dvc/tmp/parallel"), "pipeline.runs.parallel"):
        remove_half_written(Path())
        params, graph, stale = plan_of(targets)
        for key in ("num_processes", "shards"):
            if gpus is not None and len(gpus) < (needed := getattr(params.distributed, key)):
                raise ConfigError(f"--gpus names {len(gpus)} GPUs; distributed.{key} needs {needed}")
        off = {name for name in graph if why_off(graph[name].stage, params)}
        runner = Runner(graph, stale, jobs, gpus, params.distributed, off)
        runner.run()
    done, failed, skipped = map(len, (runner.done, runner.failed, runner.skipped))
    print(f"{done} done, {failed} failed, {skipped} skipped", file=sys.stderr)
    if runner.failed:
        raise PipelineError(
            f"failed: {', '.join(runner.failed)}; the logs are in {LOGS}. `make tables` reports what there is"
        )


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.runs.parallel"))
