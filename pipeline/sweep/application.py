"""The Hydra application ``python -m pipeline.sweep``, with its summary and exit status."""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from pipeline import PROJECT
from pipeline.command import RESUMES, Terminated
from pipeline.errors import PipelineError
from pipeline.runs.dvc_process import terminated_like_interrupted
from pipeline.sweep.run import read_record, run_job
from pipeline.sweep.settings import PRIMARY, expand_arguments, sweep_config

CONF = PROJECT / "conf"


def job(configuration: DictConfig) -> str:
    """Hydra's task function: one cell. Never raises for a cell that fails, so that the others run."""
    composed = HydraConfig.get()
    config = sweep_config(OmegaConf.to_container(configuration.sweep, resolve=True), "sweep")
    # Read before the cell is composed: that replaces Hydra's global state.
    overrides, output = list(composed.overrides.task), Path(composed.runtime.output_dir)
    record = run_job(overrides, config, PROJECT, output)
    why = f": stage {record.stage}: {record.reason}; log: {record.log}" if record.status == "failed" else ""
    print(f"{record.status} {Path(record.cell).name} [{' '.join(record.overrides)}]{why}", file=sys.stderr, flush=True)
    return record.status


def _summarise(jobs: Path) -> int:
    """Print how the jobs went and gather the results of their sweeps; the exit status."""
    # Not before: the processes that only run jobs need no tables.
    from pipeline.sweep.tables import gather, run_table

    paths = sorted([*jobs.glob("record.json"), *jobs.glob("*/record.json")], key=lambda path: path.parent.name.zfill(8))
    if not paths:
        return 0
    records = [read_record(path) for path in paths]
    print(run_table(records))
    for directory in sorted({Path(record.cell).parent for record in records if record.cell}):
        gather(directory)
        print(f"{directory / 'summary.csv'} and {directory / 'metrics.csv'}: all cells of this sweep")
    counts = Counter(record.status for record in records)
    print(", ".join(f"{number} {status}" for status, number in sorted(counts.items())))
    return 1 if counts["failed"] or counts["interrupted"] else 0


def run_application(arguments: Sequence[str]) -> int:
    """Run the sweep that a command line asks for; the exit status."""
    try:
        expanded, directory = expand_arguments(arguments, CONF)
    except (PipelineError, HydraException) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    jobs = directory / "jobs" / datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
    sys.argv[1:] = [*expanded, f"hydra.run.dir='{jobs}'", f"hydra.sweep.dir='{jobs}'"]
    # Launchers that start other processes must find the package, wherever the sweep is started.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH", "")]))
    status = 0
    try:
        with terminated_like_interrupted():
            hydra.main(version_base="1.3", config_path=str(CONF), config_name=PRIMARY)(job)()
    except (KeyboardInterrupt, Terminated):
        print(f"interrupted; {RESUMES}", file=sys.stderr)
        status = 130
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    return max(status, _summarise(jobs))
