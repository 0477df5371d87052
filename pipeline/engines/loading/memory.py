"""Fewer rows at a time where the GPU's memory is too small for a batch.

How many rows fit depends on the model, the prompts and the GPU. Neither samples nor scores depend on the rows that
are run together (up to rounding), so a batch that is too large is run in parts and nothing else changes.
"""

import gc
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from pipeline.errors import ModelError, first_line

Result = TypeVar("Result")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the GPU's memory is full; cuBLAS has words of its own for it."""
    return isinstance(error, torch.OutOfMemoryError) or "CUBLAS_STATUS_ALLOC_FAILED" in str(error)


def too_large(what: str, error: BaseException) -> ModelError:
    """The error for work that cannot be split further."""
    return ModelError(
        f"{what} alone does not fit into the GPU's memory beside the model ({first_line(error)}); "
        "use a GPU with more memory, or stop what else runs on this one"
    )


def release() -> None:
    """Give back what a failed pass held. To be called when its exception is gone, which holds it, too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def say_smaller(size: str) -> None:
    """Tell the user, on stderr, what a pass holds from here on."""
    print(f"the GPU's memory is too small for what was run together: {size} from here on", file=sys.stderr)


class MemoryLimit:
    """What the GPU's memory is known to be too small for, of one kind of pass.

    Attributes:
        tokens: Padded tokens of the smallest pass that did not fit.
    """

    def __init__(self) -> None:
        self.tokens = math.inf

    def run(
        self, batches: Sequence[list[int]], lengths: Sequence[int], run: Callable[[list[int]], Result]
    ) -> Iterator[tuple[list[int], Result]]:
        """Run batches of rows; one that does not fit is halved, and so is each later one of its size.

        Args:
            batches: Indices of the rows of each pass, as of ``length_buckets``.
            lengths: Tokens of each row.
            run: Runs the rows of one pass.

        Yields:
            Indices of the rows of a pass, and what ``run`` returned for them.

        Raises:
            ModelError: A single row does not fit.
        """
        waiting = [list(batch) for batch in reversed(batches)]
        while waiting:
            batch = waiting.pop()
            size = len(batch) * max(lengths[index] for index in batch)
            if size < self.tokens or len(batch) == 1:
                try:
                    result = run(batch)
                # The exception, which holds the pass's tensors, is gone when their memory is given back.
                except RuntimeError as error:
                    if not is_out_of_memory(error):
                        raise
                    if len(batch) == 1:
                        raise too_large(f"a sequence of {size} tokens", error) from None
                else:
                    yield batch, result
                    del result
                    continue
                self.tokens = size
                release()
                say_smaller(f"less than {size} tokens")
            middle = (len(batch) + 1) // 2
            waiting += [batch[middle:], batch[:middle]]
