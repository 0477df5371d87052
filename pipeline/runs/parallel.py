"""Run the DAG's stages side by side: ``python -m pipeline.runs.parallel --jobs 4 --gpus 0,1,2,3``.

Every stage that is out of date runs as ``dvc repro --single-item`` once what it waits for is done. DVC gives up its
lock while a stage's command runs. A plain ``dvc repro`` would walk through common ancestors, too, and ask to write what
another stage is reading.
"""

import sys
import time
from collections.abc import Collection
from pathlib import Path
from subprocess import Popen

from tqdm import tqdm

from pipeline.artifacts.locks import exclusive
from pipeline.command import RESUMES, run_command
from pipeline.commands import parse_arguments
from pipeline.compose import check
from pipeline.config.params import load_params
from pipeline.dag.graph import StageGraph, stages_out_of_date
from pipeline.dag.launch import thread_share
from pipeline.errors import ConfigError, PipelineError
from pipeline.runs.dvc_process import end, last_error, remove_broken_rwlock, start_dvc

LOGS, SECONDS_BETWEEN_LOOKS = Path("outputs/parallel"), 0.05


def log_of(name: str) -> Path:
    """The log of a stage, which runs append to."""
    return LOGS / f"{name.replace('@', '-')}.log"


class Runner:
    """Runs the stages ``pending`` of ``graph``, in its order, while there are places, and ``gpus`` if given."""

    def __init__(
        self, graph: StageGraph, pending: Collection[str], jobs: int, gpus: Collection[int] | None, processes: int
    ):
        self._graph, self._jobs, self._free_gpus = graph, jobs, None if gpus is None else sorted(gpus)
        self._gpus_by_device = {"none": 0, "gpu": 1, "training": processes}
        self.waiting = [name for name in graph.closure(pending) if name in pending]
        self.running: dict[str, tuple[Popen, int, list[int]]] = {}  # process, size of its log before, and GPUs
        self.done: list[str] = []
        self.failed: list[str] = []
        self.skipped: list[str] = []

    def start_ready(self) -> None:
        """Start stages whose inputs and GPUs are there, up to the number of jobs."""
        reserved, unfinished = False, {*self.waiting, *self.running}
        for name in [name for name in self.waiting if not self._graph.upstream(name) & unfinished]:
            if len(self.running) >= self._jobs:
                return
            count, gpus = self._gpus_by_device[self._graph[name].stage.device], []
            environment = thread_share(self._jobs * max(count, 1))
            if self._free_gpus is not None:
                if count and (reserved or len(self._free_gpus) < count):
                    # The free ones are kept for it, or a stage of several GPUs would never find them all free.
                    reserved = True
                    continue
                gpus, self._free_gpus = self._free_gpus[:count], self._free_gpus[count:]
                # A stage without a model sees none, rather than all.
                environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
            log = log_of(name)
            log_size = log.stat().st_size if log.exists() else 0
            process = start_dvc(Path(), ["repro", "--single-item", name], log, environment)
            self.waiting.remove(name)
            self.running[name] = process, log_size, gpus

    def finish(self, name: str, succeeded: bool) -> list[str]:
        """Note how a stage ended; of a failed one, the stages that are skipped with it."""
        if self._free_gpus is not None:
            self._free_gpus = sorted([*self._free_gpus, *self.running[name][2]])
        del self.running[name]
        (self.done if succeeded else self.failed).append(name)
        behind = set() if succeeded else self._graph.downstream([name])
        lost = [other for other in self.waiting if other in behind]
        self.waiting = [other for other in self.waiting if other not in behind]
        self.skipped += lost
        return lost

    def _collect(self, progress: tqdm) -> None:
        for name, (process, log_size, _) in list(self.running.items()):
            if (status := process.poll()) is None:
                continue
            lost = self.finish(name, status == 0)
            progress.update(1 + len(lost))
            if status != 0:
                reason = last_error(log_of(name).read_bytes()[log_size:].decode(errors="replace"))
                behind = f"; {len(lost)} stages that wait for it are skipped" if lost else ""
                progress.write(f"FAILED {name}: {reason}; log: {log_of(name)}{behind}", file=sys.stderr)

    def run(self) -> None:
        """Run until nothing is left; what runs is ended where this process is interrupted."""
        # No time that is left: what stages take differs by hundreds.
        shown = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
        with tqdm(total=len(self.waiting), desc="stages", bar_format=shown) as progress:
            try:
                while self.waiting or self.running:
                    self.start_ready()
                    progress.set_postfix_str(" ".join(sorted(self.running)[:3]), refresh=False)
                    time.sleep(SECONDS_BETWEEN_LOOKS)
                    self._collect(progress)
            except BaseException:
                end(*(process for process, *_ in self.running.values()))
                print(f"interrupted; {RESUMES}", file=sys.stderr)
                raise


def main(targets: list[str], jobs: int, gpus: list[int] | None) -> None:
    """Run what is out of date, up to ``targets``, or everything. Raises PipelineError, at the end for failed stages."""
    check(Path("params.yaml"), Path("conf"))
    params = load_params(Path("params.yaml"))
    processes = params.distributed.num_processes
    if gpus is not None and len(gpus) < processes:
        raise ConfigError(f"--gpus names {len(gpus)} GPUs; distributed.num_processes needs {processes} for training")
    graph = StageGraph(params)
    with exclusive(Path(".dvc/tmp/parallel"), "pipeline.runs.parallel"):
        remove_broken_rwlock(Path())
        wanted = set(graph.closure(graph.select(targets) if targets else list(graph)))
        stale = graph.downstream(stages_out_of_date(Path()) & wanted) & wanted
        print(f"{len(stale)} of {len(wanted)} stages may be out of date", file=sys.stderr)
        runner = Runner(graph, stale, jobs, gpus, processes)
        runner.run()
    done, failed, skipped = map(len, (runner.done, runner.failed, runner.skipped))
    print(f"{done} done, {failed} failed, {skipped} skipped", file=sys.stderr)
    if runner.failed:
        raise PipelineError(
            f"failed: {', '.join(runner.failed)}; the logs are in {LOGS}. `make tables` reports what there is"
        )


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.runs.parallel"))
