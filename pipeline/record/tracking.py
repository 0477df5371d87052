"""Weights & Biases runs, one for each training and one for the report; offline without credentials, and never in the
stage's way."""

import contextlib
import netrc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from pipeline.config.params import Params, TrackingConfig
from pipeline.errors import first_line
from pipeline.record.provenance import StageRecord

CONNECT_SECONDS = 30


def has_credentials() -> bool:
    """Whether W&B finds a key without asking: in the environment or in a netrc file."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").hostname or ""
    try:
        # Named, or Python refuses a file that others may read, which W&B does not.
        path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
        return netrc.netrc(str(path)).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def tracking_mode(config: TrackingConfig) -> str:
    """The effective W&B mode: "online", "offline" or "disabled"; the environment variable WANDB_MODE goes first."""
    mode = os.environ.get("WANDB_MODE") or config.mode
    if mode not in ("auto", "online") or has_credentials():
        return "online" if mode == "auto" else mode
    if mode == "online":
        # W&B would ask for them.
        _warn("there are no W&B credentials; the run is kept offline")
    return "offline"


def _warn(message: str) -> None:
    print(f"warning: tracking: {message}", file=sys.stderr)


class Run:
    """What a stage may log to; does nothing without a W&B run, nor after W&B has failed once."""

    def __init__(self, run: Any = None, last_step: int = -1):
        self._run, self._last_step = run, last_step

    def _try(self, action: Callable[[Any], Any]) -> None:
        """Tracking must not fail a stage: the first error, whatever it is, ends it with a warning."""
        if self._run is not None:
            try:
                action(self._run)
            except Exception as error:
                self._run = None
                _warn(f"given up for this stage ({first_line(error)})")

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Log scalars as points of curves at ``step``, unless W&B has it, or as results where there is no step."""
        if step is None:
            self._try(lambda run: run.summary.update(dict(values)))
        elif step > self._last_step:
            self._last_step = step
            # Written at once: a step that waits for the next one to end it would be lost when the process is killed.
            self._try(lambda run: run.log(dict(values), step=step, commit=True))

    def _log_object(self, name: str, make: Callable[[Any], Any]) -> None:
        """Log what ``make`` makes with the package, behind the last step."""

        def add(run: Any) -> None:
            import wandb

            self.log({name: make(wandb)}, step=self._last_step + 1)

        self._try(add)

    def table(self, name: str, frame: Any) -> None:
        """Log a pandas table."""
        self._log_object(name, lambda wandb: wandb.Table(dataframe=frame))

    def image(self, name: str, path: Path) -> None:
        """Log a picture, if it was drawn."""
        if path.exists():
            self._log_object(name, lambda wandb: wandb.Image(str(path)))

    def artifact(self, name: str, paths: Iterable[Path]) -> None:
        """Keep files and directories as an artifact of the run."""

        def add(run: Any) -> None:
            import wandb

            made = wandb.Artifact(f"{name}-{run.id}", type=name)
            for path in paths:
                # One by one: for a directory W&B prints a line, though told to be silent.
                for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                    made.add_file(str(file), name=str(file.relative_to(path.parent)))
            run.log_artifact(made)

        self._try(add)

    def finish(self, exit_code: int = 0) -> None:
        """Close the run; what a server does not take within a minute stays in the local directory."""
        self._try(lambda run: run.finish(exit_code=exit_code))
        self._run = None


def _open(mode: str, arguments: Mapping[str, Any]) -> Run:
    # Here: the package takes a second to import.
    import wandb

    torch = sys.modules.get("torch")
    has_gpu = torch is not None and torch.cuda.is_available()
    # A run starts in a third of a second: what is left out is in our own provenance.
    settings = wandb.Settings(
        silent=True,
        console="off",
        disable_git=True,
        save_code=False,
        disable_code=True,
        x_save_requirements=False,
        disable_job_creation=True,
        x_disable_meta=True,
        # Use of the GPU is worth its cost; there is nothing to see in that of a CPU.
        x_disable_machine_info=not has_gpu,
        x_disable_stats=not has_gpu,
        # A killed process loses what was not flushed; the default is 15 s.
        x_transaction_log_flush_interval=1.0,
        init_timeout=CONNECT_SECONDS,
        finish_timeout=60,
        finish_timeout_raises=False,
        use_dot_wandb=False,
    )
    try:
        run = wandb.init(mode=mode, settings=settings, **arguments)
    # Whatever keeps the server from taking the run (network, quota, a revoked key): it is kept on disk.
    except Exception as error:
        if mode == "offline":
            raise
        _warn(f"W&B is not reachable, the run is kept offline ({first_line(error)})")
        wandb.teardown()
        run = wandb.init(mode="offline", settings=settings, **arguments)
    return Run(run, run.starting_step - 1)


@contextlib.contextmanager
def stage_run(config: Params, record: StageRecord, *, model: str = "", condition: str = "") -> Iterator[Run]:
    """The W&B run of a stage, opened or gone on with. Whatever fails in W&B is a warning."""
    from omegaconf import OmegaConf

    names = [part for part in (record.stage, model, condition) if part]
    found_by = {"experiment": config.experiment, "stage": record.stage, "model": model, "condition": condition}
    run = Run()
    try:
        if (mode := tracking_mode(config.tracking)) != "disabled":
            settings = OmegaConf.create()
            for name, value in record.parameters.items():
                OmegaConf.update(settings, name, value, force_add=True)
            arguments = {
                "project": config.tracking.project,
                "name": " ".join(names),
                "id": "-".join([*names, record.identity[:8]])[-64:],
                "resume": "allow",
                "group": config.experiment,
                "job_type": record.stage,
                "config": {**OmegaConf.to_container(settings), **found_by, "provenance": record.origin()},
                "tags": [name[:64] for name in names],
            }
            run = _open(mode, arguments)
    # A stage runs without its W&B run, whatever the reason: no package, no disk, a server's answer.
    except Exception as error:
        _warn(f"{' '.join(names)} is not tracked ({first_line(error)})")
    try:
        yield run
    except BaseException:
        run.finish(exit_code=1)
        raise
    run.finish()
