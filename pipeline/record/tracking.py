"""Weights & Biases runs, one per stage; offline without credentials, and never in the way of the stage.

A run's id is the stage's identity. A stage that was killed goes on with its run: steps that W&B has
already, on the server or in local directories, are not logged again.
"""

import contextlib
import netrc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from pipeline.artifacts.locks import exclusive
from pipeline.config.params import Params, TrackingConfig
from pipeline.errors import first_line
from pipeline.record.provenance import StageRecord

WANDB_HOST = "https://api.wandb.ai"
CONNECT_SECONDS = 30
FLUSH_SECONDS = 1.0


def has_credentials() -> bool:
    """Whether W&B finds a key without asking: in the environment or in a netrc file."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL") or WANDB_HOST).hostname or ""
    try:
        # Named, or Python refuses a file that others may read, which W&B does not.
        path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
        return netrc.netrc(str(path)).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def tracking_mode(config: TrackingConfig) -> str:
    """The effective W&B mode: "online", "offline" or "disabled".

    The environment variable WANDB_MODE overrides the configuration. Without credentials W&B would ask for them,
    so there "online" is "offline" as well, with a warning.
    """
    mode = os.environ.get("WANDB_MODE") or config.mode
    if mode == "auto":
        return "online" if has_credentials() else "offline"
    if mode == "online" and not has_credentials():
        _warn("there are no W&B credentials; the run is kept offline")
        return "offline"
    return mode


def wandb_directory() -> Path:
    """Where W&B keeps local runs: ``wandb`` below the working directory or WANDB_DIR."""
    return Path(os.environ.get("WANDB_DIR") or ".") / "wandb"


def _warn(message: str) -> None:
    print(f"warning: tracking: {message}", file=sys.stderr)


class Run:
    """What a stage may log to; does nothing when tracking is disabled, nor after W&B has failed once.

    Args:
        run: The W&B run; None does nothing.
        last_step: The highest step that W&B has of this run; -1 where it has none.
        step_file: Keeps that step for a run that goes on after a kill; None keeps nothing.
    """

    def __init__(self, run: Any = None, last_step: int = -1, step_file: Path | None = None):
        self._run, self._last_step, self._step_file = run, last_step, step_file
        self._bars: list[Any] = []

    def _try(self, action: Callable[[Any], Any]) -> Any:
        """Tracking must not fail a stage: the first error, whatever it is, ends it with a warning."""
        if self._run is None:
            return None
        try:
            return action(self._run)
        except Exception as error:
            self._run = None
            _warn(f"given up for this stage ({first_line(error)})")
            return None

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Log scalars as points of curves at ``step``, or as results of the run where there is no step.

        A step up to the highest one that W&B has of this run is left out.
        """
        if step is None:
            self._try(lambda run: run.summary.update(dict(values)))
        elif step > self._last_step:
            self._last_step = step
            self._try(lambda run: self._log_step(run, dict(values), step))

    def _log_step(self, run: Any, values: dict[str, Any], step: int) -> None:
        # Written at once: a step that waits for the next one to end it would be lost when the process is killed.
        run.log(values, step=step, commit=True)
        if self._step_file is not None:
            self._step_file.write_text(str(step))

    def bar(self, iterable: Iterable | None = None, **arguments: Any) -> Any:
        """A tqdm bar whose count and rate are also logged, every ten seconds and at the end.

        The step is the count, so that a stage which was killed goes on with the curve. Count what is restored from
        an earlier run with the bar's method ``restored``: it is no throughput of this one.

        Args:
            iterable: See tqdm.
            arguments: See tqdm; ``unit`` names the curve.
        """
        from pipeline.record.progress_bar import LoggedBar

        bar = LoggedBar(iterable, **arguments, log=self.log)
        self._bars.append(bar)
        return bar

    def table(self, name: str, frame: Any) -> None:
        """Log a pandas table."""
        self._media(name, lambda wandb: wandb.Table(dataframe=frame))

    def image(self, name: str, path: Any) -> None:
        """Log a picture file."""
        self._media(name, lambda wandb: wandb.Image(str(path)))

    def _media(self, name: str, make: Callable[[Any], Any]) -> None:
        def send(run: Any) -> None:
            import wandb

            self.log({name: make(wandb)}, step=self._last_step + 1)

        self._try(send)

    def finish(self, exit_code: int = 0) -> None:
        """Close the run; what a server does not take within a minute stays in the local directory."""
        for bar in self._bars:
            bar.close()
        self._try(lambda run: run.finish(exit_code=exit_code))
        if exit_code == 0 and self._step_file is not None:
            self._step_file.unlink(missing_ok=True)
        self._run = None


def _settings() -> Any:
    """Settings of a run that starts in a third of a second: what they leave out is in our own provenance."""
    import wandb

    torch = sys.modules.get("torch")
    has_gpu = torch is not None and torch.cuda.is_available()
    return wandb.Settings(
        silent=True,
        console="off",
        disable_git=True,
        save_code=False,
        disable_code=True,
        x_save_requirements=False,
        disable_job_creation=True,
        x_disable_meta=True,
        x_disable_machine_info=not has_gpu,
        # Use of the GPU is worth its cost; there is nothing to see in that of a CPU.
        x_disable_stats=not has_gpu,
        # A killed process loses what was not flushed; the default is 15 s.
        x_transaction_log_flush_interval=FLUSH_SECONDS,
        init_timeout=CONNECT_SECONDS,
        finish_timeout=60,
        finish_timeout_raises=False,
        use_dot_wandb=False,
    )


def _open(mode: str, arguments: Mapping[str, Any]) -> Run:
    import wandb

    step_file = wandb_directory() / f"{arguments['id']}.step"
    known = int(step_file.read_text() or -1) if step_file.exists() else -1
    try:
        run = wandb.init(mode=mode, settings=_settings(), **arguments)
    # Whatever keeps the server from taking the run (network, quota, a revoked key): it is kept on disk.
    except Exception as error:
        if mode == "offline":
            raise
        _warn(f"W&B is not reachable, the run is kept offline ({first_line(error)})")
        wandb.teardown()
        run = wandb.init(mode="offline", settings=_settings(), **arguments)
    return Run(run, max(known, run.starting_step - 1), step_file)


@contextlib.contextmanager
def tracked_run(tracking: TrackingConfig, *, name: str, id: str, **arguments: Any) -> Iterator[Run]:
    """Open the W&B run ``id``, or go on with it; ``arguments`` are wandb.init's. Whatever fails in W&B is a warning."""
    mode = tracking_mode(tracking)
    run = Run()
    with contextlib.ExitStack() as stack:
        try:
            if mode != "disabled":
                # Says to whoever uploads local runs that this one is not finished.
                stack.enter_context(exclusive(wandb_directory() / id, f"tracking of {name}"))
                run = _open(mode, {"project": tracking.project, "name": name, "id": id, "resume": "allow", **arguments})
        # A stage runs without its W&B run, whatever the reason: no package, no disk, a server's answer.
        except Exception as error:
            _warn(f"{name} is not tracked ({first_line(error)})")
        try:
            yield run
        except BaseException:
            run.finish(exit_code=1)
            raise
        run.finish()


@contextlib.contextmanager
def stage_run(config: Params, record: StageRecord, *, model: str = "", condition: str = "") -> Iterator[Run]:
    """The W&B run of a stage: grouped by experiment, found by stage, model and condition where it has them.

    Parameters and provenance of ``record`` become its configuration. An interrupted stage resumes the run of the same
    identity.
    """
    settings = {
        "experiment": config.experiment,
        "stage": record.stage,
        "model": model,
        "condition": condition,
        "parameters": record.parameters,
        "provenance": record.origin(),
    }
    names = [part for part in (record.stage, model, condition) if part]
    with tracked_run(
        config.tracking,
        name=" ".join(names),
        id=record.identity[:16],
        group=config.experiment,
        job_type=record.stage,
        config=settings,
        tags=[name[:64] for name in names],
    ) as run:
        yield run
