"""Work on prompts one by one that a kill costs one row of at most."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pipeline.artifacts.journal import Journal
from pipeline.dag.execution import StageRun


class HasId(Protocol):
    """A prompt of any kind."""

    @property
    def prompt_id(self) -> str:
        """Names it."""


AnyPrompt = TypeVar("AnyPrompt", bound=HasId)


@contextlib.contextmanager
def row_by_row(
    run: StageRun, prompts: Sequence[AnyPrompt], make_row: Callable[[AnyPrompt], Mapping[str, Any]]
) -> Iterator[list[dict[str, Any]]]:
    """The row of every prompt, made and kept one by one: a killed run goes on behind its last finished prompt.

    Yields:
        ``prompt_id`` and what ``make_row`` gives, which JSON must be able to hold, in the order of ``prompts``.
        Tables are to be written inside the context, whose good end removes the unfinished work.
    """
    with run.scratch() as scratch:
        journal = Journal(scratch / "rows.jsonl")
        done = {row["prompt_id"]: row for row in journal.rows()}
        with run.tracked() as tracking:
            for prompt in tracking.bar(prompts, desc=run.title, unit="prompt"):
                if prompt.prompt_id not in done:
                    done[prompt.prompt_id] = {"prompt_id": prompt.prompt_id, **make_row(prompt)}
                    journal.append([done[prompt.prompt_id]])
        yield [done[prompt.prompt_id] for prompt in prompts]
