"""Trains a tiny embedded model twice: whole, and as children that kill themselves at chosen steps, until one ends.

``python -m tests.embedded_process DIRECTORY RECIPE PHASE:STEP ...`` leaves ``whole/model`` and ``killed/model`` in the
directory, and what the n-th child wrote to its standard error in ``killed/n.log``. The libraries are loaded once,
before the forks.
"""

import functools
import os
import signal
import sys
from pathlib import Path

from pipeline.demo import build_model
from pipeline.demo.embedded import batches, training
from pipeline.demo.embedded import recipe as embedded
from tests.forked import in_child


def train(directory: Path, recipe: Path, killed_at: tuple[str, int] | None) -> None:
    """Run the stage; it does not survive the step after ``killed_at`` (phase and finished steps)."""
    advance = training._PhaseRun.advance

    def advance_or_die(run):
        if (run._phase.name, run.step) == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return advance(run)

    training._PhaseRun.advance = advance_or_die
    build_model.main(
        directory / "model",
        directory / "unfinished",
        checkpoint_every_steps=4,
        recipe=recipe,
        training_tokens=None,
        autocast=None,
    )


def run(directory: Path, recipe: Path, number: int, killed_at: tuple[str, int] | None) -> int:
    """Exit status of a child, -9 if it was killed."""

    def work() -> None:
        log = os.open(directory / f"{number}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 2)
        train(directory, recipe, killed_at)

    return in_child(work)


def main() -> None:
    """See the module."""
    recipe = Path(sys.argv[2])
    # Less text makes a tokenizer of 400 tokens as well, and as many batches as these runs take.
    some = embedded.prose_documents()[::10]
    for module in (embedded, batches):
        module.prose_documents = lambda: some
    embedded.tokenizer_texts = functools.partial(embedded.tokenizer_texts, groups=50)
    moments = [(phase, int(step)) for phase, step in (word.split(":") for word in sys.argv[3:])]
    for name, ends in (("whole", [None]), ("killed", [*moments, None])):
        directory = Path(sys.argv[1]) / name
        directory.mkdir()
        for number, killed_at in enumerate(ends):
            expected = 0 if killed_at is None else -signal.SIGKILL
            assert run(directory, recipe, number, killed_at) == expected, (directory / f"{number}.log").read_text()


if __name__ == "__main__":
    main()
