"""Which sequences run together: those of similar length, as many as a token budget allows; and memory to give back."""

import gc
from collections.abc import Sequence

import torch


def length_buckets(lengths: Sequence[int], tokens_per_pass: int) -> list[list[int]]:
    """Indices of sequences by pass, longest first; a pass has ``tokens_per_pass`` with padding, or one sequence."""
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


def release_memory() -> None:
    """Give back what models that nobody holds any more took, on a GPU too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
