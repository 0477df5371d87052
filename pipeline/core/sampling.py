"""Next-token sampling by inversion: one uniform number per sample and step."""

import torch

BLOCK = 256
"""Tokens whose weights are summed in float32 before sums over a vocabulary go on in float64."""


def sample_tokens(
    logits: torch.Tensor,
    uniforms: torch.Tensor,
    temperature: float = 1.0,
    top_p: float = 1.0,
    rows: torch.Tensor | None = None,
    top_k: int | None = None,
) -> torch.Tensor:
    """int64[N], one token per uniform number, float64[N] in [0, 1), from softmax(logits / temperature) of float[R, V]:
    of row ``rows[n]`` (int64[N], None for n) the first in id order (of probability when top_p < 1) at which the
    cumulative mass exceeds uniforms[n]. ``top_k`` keeps ties; ``top_p`` keeps the smallest most-probable set."""
    vocabulary, rows = logits.shape[-1], torch.arange(len(logits), device=logits.device) if rows is None else rows
    if top_k is not None and top_k < vocabulary:
        logits = logits.masked_fill(logits < logits.topk(top_k, dim=-1).values[..., -1:], -torch.inf)
    if top_p < 1.0:
        logits, tokens = logits.sort(dim=-1, descending=True)
        law = torch.softmax(logits.double() / temperature, dim=-1)
        logits = logits.masked_fill(law.cumsum(dim=-1) - law >= top_p, -torch.inf)
    greatest = logits.amax(dim=-1, keepdim=True).float()
    # So many rows at a time that their weights stay in a CPU's cache.
    sums, size = [], max((2**20 if logits.device.type == "cpu" else 2**26) // vocabulary, 1)
    for part, most in zip(logits.split(size), greatest.split(size), strict=True):
        weights = (part.float() - most).div_(temperature).exp_()
        sums.append(torch.nn.functional.pad(weights, (0, -vocabulary % BLOCK)).unflatten(-1, (-1, BLOCK)).sum(dim=-1))
    # The block, how far into it, and the token there, whose weights are in float64.
    block, place = _invert(torch.cat(sums).double(), rows, uniforms)
    blocks, own = torch.unique(rows * vocabulary + block, return_inverse=True)
    of, ids = blocks // vocabulary, (blocks % vocabulary)[:, None] * BLOCK + torch.arange(BLOCK, device=rows.device)
    exponents = (logits[of[:, None], ids.clamp(max=vocabulary - 1)].double() - greatest[of]) / temperature
    inside, _ = _invert(exponents.exp().masked_fill(ids >= vocabulary, 0.0), own, place)
    choice = block * BLOCK + inside
    return tokens[rows, choice] if top_p < 1.0 else choice


def _invert(weights: torch.Tensor, rows: torch.Tensor, shares: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where sums of a row int64[N] of weights float64[R, M] first exceed a share float64[N] of their total: int64[N],
    never of weight zero, and float64[N], the share of that weight at which they do."""
    cumulative = weights.cumsum(dim=-1)[rows]
    total = cumulative[:, -1:]
    # Rounding may put it below nothing or on the whole sum, where no weight is.
    mass = (shares.to(total)[:, None] * total).clamp(min=0.0).minimum(total.nextafter(torch.zeros_like(total)))
    place = torch.searchsorted(cumulative, mass, right=True)
    own = weights[rows[:, None], place]
    return place[:, 0], ((mass - cumulative.gather(1, place) + own) / own)[:, 0]
