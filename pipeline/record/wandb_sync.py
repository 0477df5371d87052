"""Send offline runs to W&B: each directory once, the parts of a resumed run in order, none that is being written.

``wandb sync`` marks what it has sent. The parts of a run that was killed and resumed have one id and are appended to
each other.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.artifacts.locks import exclusive
from pipeline.command import run_command
from pipeline.errors import BusyError, ConfigError, PipelineError
from pipeline.record.tracking import has_credentials, wandb_directory
from pipeline.record.transaction_log import cut_incomplete


class SyncError(PipelineError):
    """Some runs could not be sent; they stay where they are."""


def unsent_runs(directory: Path) -> list[Path]:
    """Offline run directories that have not been sent, oldest first.

    Without those of stages that are running, and without those of stages that were killed before they wrote anything.
    The last, torn message of a killed stage is removed: ``wandb sync`` would send the run again each time.
    """
    unsent = []
    for run in sorted(directory.glob("offline-run-*-*")):
        run_id = run.name.split("-", 3)[-1]
        log = run / f"run-{run_id}.wandb"
        if not log.exists() or log.with_suffix(".wandb.synced").exists():
            continue
        try:
            with exclusive(directory / run_id, f"upload of {run.name}"):
                if cut_incomplete(log):
                    unsent.append(run)
        except BusyError:
            print(f"{run.name} is being written; it is sent when its stage has ended")
    return unsent


def main(directories: Sequence[Path], dry_run: bool) -> None:
    """Send what has not been sent. Raises ConfigError without credentials and SyncError if runs are left."""
    runs = [run for directory in directories for run in unsent_runs(directory)]
    print(f"{len(runs)} offline runs to send")
    if dry_run or not runs:
        print("\n".join(map(str, runs)))
        return
    if not has_credentials():
        raise ConfigError("there are no W&B credentials; set WANDB_API_KEY or run `wandb login`")
    # A mode set for the stages would keep the upload offline, too.
    environment = {name: value for name, value in os.environ.items() if name != "WANDB_MODE"}
    subprocess.run([sys.executable, "-m", "wandb", "sync", *map(str, runs)], env=environment, check=False)
    left = [run for run in runs if not next(run.glob("*.wandb.synced"), None)]
    if left:
        raise SyncError(f"{len(left)} of {len(runs)} runs were not sent, the first is {left[0]}; run it again")


def parse_arguments() -> argparse.Namespace:
    """Command line of ``make wandb-sync``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "directories",
        type=Path,
        nargs="*",
        default=[wandb_directory(), *sorted(Path().glob("sweeps/*/*/wandb"))],
        help="directories with offline runs (default: wandb and those of all sweep cells)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only list the runs")
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments())
