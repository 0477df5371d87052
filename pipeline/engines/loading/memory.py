"""Which sequences run together: those of similar length, as many as a token budget and the GPU's memory allow.

Neither samples nor scores depend on the rows that are run together (up to rounding), so a batch that is too large is
run in parts and nothing else changes.
"""

import gc
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from pipeline.errors import ModelError, first_line

Result = TypeVar("Result")


def length_buckets(lengths: Sequence[int], tokens_per_pass: int) -> list[list[int]]:
    """Indices of sequences by pass, longest first; a pass has ``tokens_per_pass`` at most, padding included."""
    buckets: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda item: (-lengths[item], item)):
        if not buckets or lengths[buckets[-1][0]] * (len(buckets[-1]) + 1) > tokens_per_pass:
            buckets.append([])
        buckets[-1].append(index)
    return buckets


def right_padded(
    rows: Sequence[Sequence[int]], device: torch.device | str, pad_id: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of token ids padded on the right: int64[R, T] tokens and bool[R, T], True where there is one."""
    lengths = torch.tensor([len(row) for row in rows])
    own = torch.arange(int(lengths.max())) < lengths[:, None]
    ids = torch.full(own.shape, pad_id)
    ids[own] = torch.tensor([token for row in rows for token in row], dtype=torch.int64)
    return ids.to(device), own.to(device)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the GPU's memory is full; cuBLAS has words of its own for it."""
    return isinstance(error, torch.OutOfMemoryError) or "CUBLAS_STATUS_ALLOC_FAILED" in str(error)


def release() -> None:
    """Give back what a failed pass held. To be called when its exception is gone, which holds it, too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def make_smaller(error: BaseException, alone: str | None, size: str) -> None:
    """Say what a pass holds from here on. Raises other errors, and ModelError where a pass of one is too large."""
    if not is_out_of_memory(error):
        raise error
    if alone:
        raise ModelError(
            f"{alone} alone does not fit into the GPU's memory beside the model ({first_line(error)}); use a GPU with "
            "more memory, or stop what else runs on this one"
        ) from None
    print(f"the GPU's memory is too small for what was run together: {size} from here on", file=sys.stderr)


class MemoryLimit:
    """What the GPU's memory is known to be too small for: padded tokens of the smallest pass that did not fit."""

    def __init__(self) -> None:
        self.tokens = math.inf

    def run(
        self, lengths: Sequence[int], tokens_per_pass: int, run: Callable[[list[int]], Result]
    ) -> Iterator[tuple[list[int], Result]]:
        """Run rows in ``length_buckets``; one that does not fit is halved, and so is each later one of its size.

        Yields the indices of the rows of a pass, and what ``run`` returned for them. Raises ModelError where a single
        row does not fit.
        """
        waiting = length_buckets(lengths, tokens_per_pass)[::-1]
        while waiting:
            batch = waiting.pop()
            size = len(batch) * max(lengths[index] for index in batch)
            if size < self.tokens or len(batch) == 1:
                try:
                    result = run(batch)
                # The exception, which holds the pass's tensors, is gone when their memory is given back.
                except RuntimeError as error:
                    alone = f"a sequence of {size} tokens" if len(batch) == 1 else None
                    make_smaller(error, alone, f"less than {size} tokens")
                else:
                    yield batch, result
                    del result
                    continue
                self.tokens = size
                release()
            middle = (len(batch) + 1) // 2
            waiting += [batch[middle:], batch[:middle]]
