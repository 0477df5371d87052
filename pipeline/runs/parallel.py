"""Run the DAG's stages side by side: ``python -m pipeline.runs.parallel --jobs 4 --gpus 0,1,2,3``.

Every stage that is out of date runs as ``dvc repro --single-item`` once what it waits for is done. DVC gives up its
lock while a stage's command runs, so processes of one checkout take turns with the bookkeeping and share the time in
between. A plain ``dvc repro`` would walk through common ancestors, too, and ask to write what another stage is reading.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import Popen

from tqdm import tqdm

from pipeline.artifacts.locks import exclusive
from pipeline.command import RESUMES, run_command
from pipeline.compose import check
from pipeline.config.params import load_params
from pipeline.dag.graph import StageGraph, stages_out_of_date
from pipeline.dag.launch import thread_share
from pipeline.errors import ConfigError, PipelineError
from pipeline.estimates.prices import Prices
from pipeline.runs.dvc_process import end, last_error, start_dvc

SECONDS_BETWEEN_LOOKS = 0.05


class StagesFailedError(PipelineError):
    """Some stages failed; the others ran."""


class Schedule:
    """Which stages are waiting, running, done, failed or skipped; ``hours`` are estimates by name."""

    def __init__(self, graph: StageGraph, pending: Sequence[str], hours: Mapping[str, float]):
        self._graph = graph
        chosen = set(pending)
        waiting = [name for name in graph.closure(pending) if name in chosen]
        # From the start of each to the end of the last one behind it, on machines enough for all.
        left: dict[str, float] = {}
        for name in reversed(waiting):
            behind = (left[other] for other in graph.followers(name) & chosen)
            left[name] = hours.get(name, 0.0) + max(behind, default=0.0)
        # Of equals, who has most behind it: what all models share, then what a model's conditions share.
        weight = {name: len(graph.downstream([name]) & chosen) for name in waiting}
        self.waiting = sorted(waiting, key=lambda name: (-left[name], -weight[name]))
        self.running: set[str] = set()
        self.done: list[str] = []
        self.failed: list[str] = []
        self.skipped: list[str] = []

    def ready(self) -> list[str]:
        """Names whose upstream stages are neither waiting nor running, in the order in which they should start."""
        unfinished = {*self.waiting, *self.running}
        return [name for name in self.waiting if not self._graph.upstream(name) & unfinished]

    def start(self, name: str) -> None:
        """Note that a stage runs."""
        self.waiting.remove(name)
        self.running.add(name)

    def finish(self, name: str, succeeded: bool) -> list[str]:
        """Note how a stage ended; of a failed one, the stages that it takes with it."""
        self.running.remove(name)
        (self.done if succeeded else self.failed).append(name)
        behind = set() if succeeded else self._graph.downstream([name])
        lost = [other for other in self.waiting if other in behind]
        self.waiting = [other for other in self.waiting if other not in behind]
        self.skipped += lost
        return lost


class Runner:
    """Starts what is ready while there are free places, and collects what has ended.

    ``gpus`` are those to hand out: one to a stage that loads a model, ``processes`` to one that trains. None leaves the
    choice to the stages.
    """

    def __init__(
        self,
        directory: Path,
        graph: StageGraph,
        schedule: Schedule,
        jobs: int,
        gpus: Sequence[int] | None,
        processes: int,
        logs: Path,
    ):
        self._directory, self._graph, self._schedule, self._logs = directory, graph, schedule, logs
        self._jobs, self._free = jobs, None if gpus is None else sorted(gpus)
        self._processes = {"none": 0, "gpu": 1, "training": processes}
        self._running: dict[str, tuple[Popen, Path, int, list[int]]] = {}
        """Process, log, where the log began, and GPUs by name."""

    def _start_ready(self) -> None:
        reserved = False
        for name in self._schedule.ready():
            if len(self._running) >= self._jobs:
                return
            count, gpus = self._processes[self._graph[name].stage.device], []
            environment = thread_share(self._jobs * max(count, 1))
            if self._free is not None:
                if count and (reserved or len(self._free) < count):
                    # The free ones are kept for it, or a stage of several GPUs would never find them all free.
                    reserved = True
                    continue
                gpus, self._free = self._free[:count], self._free[count:]
                # A stage without a model sees none, rather than all.
                environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
            log = self._logs / f"{name.replace('@', '-')}.log"
            self._schedule.start(name)
            before = log.stat().st_size if log.exists() else 0
            process = start_dvc(self._directory, ["repro", "--single-item", name], log, environment)
            self._running[name] = process, log, before, gpus

    def _collect(self, progress: tqdm) -> None:
        for name, (process, log, before, gpus) in list(self._running.items()):
            if (status := process.poll()) is None:
                continue
            del self._running[name]
            if self._free is not None:
                self._free = sorted([*self._free, *gpus])
            lost = self._schedule.finish(name, status == 0)
            progress.update(1 + len(lost))
            if status != 0:
                # Errors of earlier runs are in the same log.
                reason = last_error(log.read_bytes()[before:].decode(errors="replace"))
                behind = f"; {len(lost)} stages that wait for it are skipped" if lost else ""
                progress.write(f"FAILED {name}: {reason}; log: {log}{behind}", file=sys.stderr)

    def run(self) -> None:
        """Run until nothing is left; what runs is ended where this process is interrupted."""
        # No time that is left: the longest go first, and what stages take differs by hundreds.
        shown = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
        with tqdm(total=len(self._schedule.waiting), desc="stages", bar_format=shown) as progress:
            try:
                while self._schedule.waiting or self._running:
                    self._start_ready()
                    progress.set_postfix_str(" ".join(sorted(self._running)[:3]), refresh=False)
                    time.sleep(SECONDS_BETWEEN_LOOKS)
                    self._collect(progress)
            except BaseException:
                end(*(process for process, *_ in self._running.values()))
                print(f"interrupted; {RESUMES}", file=sys.stderr)
                raise


def main(
    targets: list[str], jobs: int, gpus: list[int] | None, directory: Path, logs: Path, conf: Path | None = None
) -> None:
    """Run what is out of date, up to ``targets``, or everything; ``conf`` is what params.yaml is checked against.

    Raises:
        ConfigError: A target is unknown, or there are too few GPUs.
        BusyError: Another process does the same in this checkout.
        StagesFailedError: Stages failed, after all others have run.
    """
    if conf is not None:
        check(directory / "params.yaml", conf)
    params = load_params(directory / "params.yaml")
    processes = params.distributed.num_processes
    if gpus is not None and len(gpus) < processes:
        raise ConfigError(f"--gpus names {len(gpus)} GPUs; distributed.num_processes needs {processes} for training")
    graph = StageGraph(params)
    with exclusive(directory / ".dvc" / "tmp" / "parallel", "pipeline.runs.parallel"):
        wanted = set(graph.closure(graph.select(targets) if targets else list(graph)))
        stale = graph.downstream(stages_out_of_date(directory) & wanted) & wanted
        prices = Prices(params, directory)
        hours = {name: graph[name].cost(prices).gpu_hours for name in stale}
        schedule = Schedule(graph, [name for name in graph if name in stale], hours)
        print(f"{len(stale)} of {len(wanted)} stages may be out of date", file=sys.stderr)
        Runner(directory, graph, schedule, jobs, gpus, processes, logs).run()
    print(f"{len(schedule.done)} done, {len(schedule.failed)} failed, {len(schedule.skipped)} skipped", file=sys.stderr)
    if schedule.failed:
        raise StagesFailedError(
            f"failed: {', '.join(schedule.failed)}; the logs are in {logs}. `make tables` makes "
            "the report of what there is"
        )


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="stages to reach, e.g. train-soft or eval-open@embedded")
    parser.add_argument("--jobs", type=int, default=2, help="most stages at once (default: %(default)s)")
    parser.add_argument(
        "--gpus", type=lambda text: [int(item) for item in text.split(",")], help="GPUs to hand out, e.g. 0,1,2,3"
    )
    parser.add_argument("--directory", type=Path, default=Path(), help="checkout (default: this directory)")
    parser.add_argument("--logs", type=Path, default=Path("outputs/parallel"), help="logs (default: %(default)s)")
    parser.add_argument("--conf", type=Path, default=Path("conf"), help="configuration to check params.yaml against")
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments())
