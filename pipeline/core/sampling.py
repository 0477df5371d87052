"""Next-token sampling by inversion: one uniform number per sample and step."""

import torch


def sample_tokens(
    logits: torch.Tensor,
    uniforms: torch.Tensor,
    temperature: float = 1.0,
    top_p: float = 1.0,
    rows: torch.Tensor | None = None,
    top_k: int | None = None,
) -> torch.Tensor:
    """int64[N], one token per uniform number, float64[N] in [0, 1), from softmax(logits / temperature) of float[R, V]:
    of row ``rows[n]`` (int64[N], None for n) the first in id order (of probability when top_p < 1) at which the float64
    cumulative mass exceeds uniforms[n]. ``top_k`` keeps ties; ``top_p`` keeps the smallest most-probable set."""
    if top_k is not None and top_k < logits.shape[-1]:
        logits = logits.masked_fill(logits < logits.topk(top_k, dim=-1).values[..., -1:], -torch.inf)
    probabilities = torch.softmax(logits.double() / temperature, dim=-1)
    if top_p < 1.0:
        probabilities, tokens = probabilities.sort(dim=-1, descending=True)
        before = probabilities.cumsum(dim=-1) - probabilities
        probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    cumulative = probabilities.cumsum(dim=-1)
    if rows is None:
        rows = torch.arange(len(logits), device=logits.device)
    threshold = uniforms.to(cumulative) * cumulative[rows, -1]
    choice = _count_not_above(cumulative, rows, threshold)
    # Rounding may put the threshold on the last sum; the last token with mass is meant.
    beyond = torch.nonzero(probabilities[rows, choice.clamp(max=logits.shape[-1] - 1)] == 0).squeeze(1)
    if len(beyond):
        last = (probabilities[rows[beyond]] > 0).long().cumsum(dim=-1).argmax(dim=-1)
        choice[beyond] = torch.minimum(choice[beyond], last)
    return tokens[rows, choice] if top_p < 1.0 else choice


def _count_not_above(cumulative: torch.Tensor, rows: torch.Tensor, threshold: torch.Tensor) -> torch.Tensor:
    """int64[N]: how many entries of row rows[n] of float64[R, V], ascending, are at most threshold[n]."""
    # torch.searchsorted wants as many thresholds for every row.
    flat, width = cumulative.reshape(-1), cumulative.shape[1]
    # One entry before the row, so that start + count is the count-th entry.
    start = rows * width - 1
    count = torch.zeros_like(rows)
    for bit in reversed(range(width.bit_length())):
        longer = count + (1 << bit)
        fits = (flat[start + longer.clamp(max=width)] <= threshold) & (longer <= width)
        count = torch.where(fits, longer, count)
    return count
