"""Weights & Biases runs, one per stage; offline without credentials, silent when disabled."""

import contextlib
import netrc
import os
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.config import TrackingConfig

WANDB_HOST = "api.wandb.ai"


def _has_credentials() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators(WANDB_HOST) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def tracking_mode(config: TrackingConfig) -> str:
    """The effective W&B mode; the environment variable WANDB_MODE overrides the configuration."""
    mode = os.environ.get("WANDB_MODE") or config.mode
    if mode == "auto":
        return "online" if _has_credentials() else "offline"
    return mode


class Run:
    """What a stage may log to; does nothing when tracking is disabled."""

    def __init__(self, run: Any = None):
        self._run = run

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Log scalars, at a step where there is one."""
        if self._run is not None:
            self._run.log(dict(values), step=step)

    def table(self, name: str, frame: Any) -> None:
        """Log a pandas table."""
        if self._run is not None:
            import wandb

            self._run.log({name: wandb.Table(dataframe=frame)})

    def image(self, name: str, path: Any) -> None:
        """Log a picture file."""
        if self._run is not None:
            import wandb

            self._run.log({name: wandb.Image(str(path))})


@contextlib.contextmanager
def tracked_run(
    config: TrackingConfig, *, name: str, group: str, job_type: str, identity: str, settings: Any
) -> Iterator[Run]:
    """Open a W&B run for a stage.

    Args:
        config: Mode and project.
        name: Name of the run, e.g. "train_soft embedded".
        group: Experiment.
        job_type: Stage.
        identity: The stage's identity; an interrupted stage resumes the run of the same identity.
        settings: What W&B shows as the run's configuration.
    """
    mode = tracking_mode(config)
    if mode == "disabled":
        yield Run()
        return
    import wandb

    run = wandb.init(
        project=config.project, name=name, group=group, job_type=job_type, id=identity[:16], resume="allow",
        config=settings, mode=mode, settings=wandb.Settings(silent=True, console="off"),
    )  # fmt: skip
    try:
        yield Run(run)
    finally:
        run.finish()
