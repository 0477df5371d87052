"""Is this GPU ready, and how fast is it? ``make gpu-check``, or ``python -m benchmarks.gpu --shapes qwen3_8b``.

Builds models of real shapes with random weights, one after the other, and measures: load memory; a training step of
the soft target, of one path and of packed ones, with peak memory beside the plan's estimate; scoring a trie; sampling;
and whether our engine and transformers' own ``generate`` sample the exact law. Every row is written as soon as it is
there. What does not fit into the time is skipped and listed.
"""

import argparse
import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from benchmarks.gpu.cases import Figures, Measurements, matmul_ceiling
from benchmarks.gpu.environment import facts, require_gpu, specified_peak
from benchmarks.gpu.report import Report
from benchmarks.gpu.shapes import ONE_OF_EACH, SHAPES, TINY, empty_model
from pipeline.command import CommandParser, run_command
from pipeline.engines.loading.memory import release_memory
from pipeline.errors import ModelError, first_line, is_out_of_memory

CASES = ("load", "train_paths", "train_packed", "score", "sample", "sample_plain", "laws")
OUTPUT = Path("reports/gpu_check")


class _OutOfTimeError(BaseException):
    """The alarm rang; not an Exception, so that nothing on the way catches it."""


def _ring(number: int, frame: FrameType | None) -> None:
    raise _OutOfTimeError


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise _OutOfTimeError after so many seconds, as soon as Python code runs."""
    before = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _attempt(function: Callable[[], Figures], deadline: float) -> dict[str, Any]:
    """Status and figures of one case: measured, skipped or failed, with the reason in one line."""
    left = deadline - time.monotonic()
    if left <= 0:
        return {"status": "skipped", "reason": "no time left"}
    try:
        with _time_limit(left):
            return {"status": "measured", **function()}
    except _OutOfTimeError:
        return {"status": "skipped", "reason": f"not done after the {left:.0f} s that were left"}
    # Whatever a kernel or a compiler raises, the other cases are measured.
    except Exception as error:
        full = "the GPU's memory is too small: " if is_out_of_memory(error) else ""
        return {"status": "failed", "reason": f"{full}{type(error).__name__}: {first_line(error)}"[:300]}


def _release() -> None:
    # A device that has failed for good refuses this, too.
    with contextlib.suppress(RuntimeError):
        release_memory()


def _refuse_too_large(name: str, device: str) -> None:
    if device == "cuda":
        needed = 2 * sum(parameter.numel() for parameter in empty_model(SHAPES[name]).parameters())
        free, _ = torch.cuda.mem_get_info()
        if needed > free:
            raise ModelError(f"weights of {needed / 1e9:.0f} GB do not fit into {free / 1e9:.0f} GB of free memory")


def check_shape(name: str, report: Report, deadline: float, cases: Sequence[str] = CASES, **settings: Any) -> None:
    """Measure one model, case by case."""
    made: list[Measurements] = []

    def load() -> Figures:
        _refuse_too_large(name, settings["device"])
        made.append(Measurements(name, **settings))
        return made[0].load()

    for case in cases:
        if case == "load":
            row = _attempt(load, deadline)
        elif not made:
            row = {"status": "skipped", "reason": "there is no model"}
        else:
            row = _attempt(getattr(made[0], case), deadline)
        report.add({"shape": name, "case": case, **row})
        _release()
        print(f"{name}: {case}: {_shown(row)}", flush=True)
    made.clear()
    _release()


def _shown(row: dict[str, Any]) -> str:
    if row["status"] != "measured":
        return f"{row['status']}, {row['reason']}"
    speed = f", {row['tokens_per_second']:,.0f} tokens/s" if "tokens_per_second" in row else ""
    return f"{row['seconds']:.3g} s{speed}" if "seconds" in row else "as it should be"


def check(
    shapes: Sequence[str],
    device: str,
    output: Path,
    minutes: float,
    *,
    repeats: int = 5,
    num_samples: int = 1024,
    rows: int = 256,
) -> Report:
    """Measure all shapes and write reports to ``output``."""
    end = time.monotonic() + 60 * minutes
    dtype = "bfloat16" if device == "cuda" else "float32"
    environment = facts(device, getattr(torch, dtype))
    peak, ceiling = specified_peak(environment["device"]), matmul_ceiling(device, getattr(torch, dtype))
    report = Report(output, environment | {"specified_tflops": peak, "matmul_tflops": ceiling, "minutes": minutes})
    settings = {"peak": peak, "ceiling": ceiling, "repeats": repeats, "num_samples": num_samples, "rows": rows}
    for place, name in enumerate(shapes):
        now = time.monotonic()
        deadline = now + max(end - now, 0.0) / (len(shapes) - place)
        # Once, on what should be the smallest model: starting vLLM takes a minute.
        cases = (*CASES, "laws_vllm") if environment.get("vllm_importable") and not place else CASES
        check_shape(name, report, deadline, cases, device=device, dtype=dtype, **settings)
    return report


def main(shapes: list[str], minutes: float, output: Path) -> None:
    """Check, and say where the report is.

    Raises:
        ConfigError: There is no GPU, and other shapes than tiny ones were asked for.
        ModelError: Something failed; the report has the reason.
    """
    names = [name for wanted in shapes for name in (TINY if wanted == "tiny" else (wanted,))]
    if not set(names) <= set(TINY):
        require_gpu()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    small = {"repeats": 1, "num_samples": 64, "rows": 64} if device == "cpu" else {}
    report = check(names, device, output, minutes, **small)
    statuses = [row["status"] for row in report.rows]
    print(f"\n{(output / 'report.md').read_text()}\nwritten to {output}: report.md, check.json")
    if skipped := statuses.count("skipped"):
        print(f"{skipped} of {len(statuses)} cases were skipped; more --minutes or fewer --shapes reach more of them")
    failed = [f"{row['shape']} {row['case']}" for row in report.rows if row["status"] == "failed"]
    if failed:
        raise ModelError(f"failed: {', '.join(failed)}; {output / 'report.md'} has the reasons")


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = CommandParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument(
        "--shapes",
        nargs="+",
        choices=["tiny", *SHAPES],
        default=list(ONE_OF_EACH),
        metavar="SHAPE",
        help=f"tiny (all architectures, in seconds), or some of {', '.join(SHAPES)} (default: {' '.join(ONE_OF_EACH)})",
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="time for all of it (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="directory to write (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments(), kept="rows that were measured are kept")
