"""The Hydra application ``python -m pipeline.sweep``, with its progress, summary and exit status."""

import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from pipeline import PROJECT
from pipeline.command import RESUMES, Terminated
from pipeline.errors import PipelineError
from pipeline.runs.dvc_process import terminated_like_interrupted
from pipeline.sweep.run import Record, read_record, run_job
from pipeline.sweep.settings import PRIMARY, expand_arguments, override_key, sweep_config

CONF = PROJECT / "conf"
SECONDS_BETWEEN_LOOKS = 0.5


class JobsDirectory(Callback):
    """Tells this process where Hydra puts the jobs of the run, whatever launcher runs them."""

    found: Path | None = None

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Hydra calls it before the jobs of a multirun are launched."""
        JobsDirectory.found = Path(config.hydra.sweep.dir)

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Hydra calls it before a single job."""
        JobsDirectory.found = Path(config.hydra.run.dir)


def job(configuration: DictConfig) -> str:
    """Hydra's task function: one cell. Never raises for a cell that fails, so that the others run."""
    composed = HydraConfig.get()
    config = sweep_config(OmegaConf.to_container(configuration.sweep, resolve=True), "sweep")
    # Read before the cell is composed: that replaces Hydra's global state.
    overrides, output = list(composed.overrides.task), Path(composed.runtime.output_dir)
    return run_job(overrides, config, PROJECT, output).status


def constant_keys(arguments: Sequence[str]) -> set[str]:
    """Keys that a command line sets to one value for all jobs."""
    overrides = [item for item in arguments if override_key(item) and "=" in item]
    parsed = OverridesParser.create().parse_overrides(overrides)
    return {override_key(item.input_line or "") for item in parsed if not item.is_sweep_override()}


def _line(record: Record) -> str:
    where = f"{Path(record.cell).name or '-'} [{' '.join(record.overrides)}]"
    if record.status == "failed":
        return f"FAILED {where}: stage {record.stage or '?'}: {record.reason}; log: {record.log or '-'}"
    if record.status == "busy":
        return f"busy {where}: {record.reason}"
    return f"{record.status} {where} in {record.seconds:.0f} s" if record.seconds else f"{record.status} {where}"


@contextlib.contextmanager
def reporting(constant: Set[str]) -> Iterator[dict[Path, Record]]:
    """Report jobs as they end, by the records that they write from other processes or machines; yields the records,
    whose overrides are those that not all jobs have.
    """
    records: dict[Path, Record] = {}
    ended = threading.Event()

    def look() -> None:
        found = JobsDirectory.found
        for path in [] if found is None else sorted([found / "record.json", *found.glob("*/record.json")]):
            if path not in records and path.exists():
                record = read_record(path)
                swept = tuple(item for item in record.overrides if override_key(item) not in constant)
                records[path] = replace(record, overrides=swept)
                if not record.stages:
                    print(_line(records[path]), file=sys.stderr, flush=True)

    def watch() -> None:
        while not ended.wait(SECONDS_BETWEEN_LOOKS):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield records
    finally:
        ended.set()
        thread.join()
        look()


def _close(records: Sequence[Record]) -> int:
    """Print the summary, gather results; the exit status."""
    # Not before: the processes that only run jobs need no tables.
    from pipeline.sweep.results import gather, run_table

    if not records:
        return 0
    print(run_table(records))
    if any(record.stages for record in records):
        return 0
    for directory in sorted({Path(record.cell).parent for record in records if record.cell}):
        gather(directory)
        print(f"{directory / 'summary.csv'} and {directory / 'metrics.csv'}: all cells of this sweep")
    counts = Counter(record.status for record in records)
    print(", ".join(f"{number} {status}" for status, number in sorted(counts.items())))
    return 1 if counts["failed"] or counts["interrupted"] else 0


def run_application(arguments: Sequence[str]) -> int:
    """Run the sweep that a command line asks for; the exit status."""
    try:
        sys.argv[1:] = expand_arguments(arguments, CONF)
        constant = constant_keys(sys.argv[1:])
    except (PipelineError, HydraException) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    # Launchers that start other processes must find the package, wherever the sweep is started.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH", "")]))
    records, status = {}, 0
    try:
        with reporting(constant) as records, terminated_like_interrupted():
            hydra.main(version_base="1.3", config_path=str(CONF), config_name=PRIMARY)(job)()
    except (KeyboardInterrupt, Terminated):
        print(f"interrupted; {RESUMES}", file=sys.stderr)
        status = 130
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    in_order = sorted(records, key=lambda path: (path.parent.name.zfill(8), path))
    return max(status, _close([records[path] for path in in_order]))
