"""Next-token sampling by inversion: one uniform number per sample and step."""

import torch


def sample_tokens(
    logits: torch.Tensor, uniforms: torch.Tensor, temperature: float = 1.0, top_p: float = 1.0
) -> torch.Tensor:
    """Draw one token per row from softmax(logits / temperature), restricted to the nucleus.

    Inversion in float64 over the full vocabulary: row r gets the first token, in id order
    (in order of probability when top_p < 1), at which the cumulative mass exceeds
    uniforms[r]. A row's result depends on its own logits and uniform number only.

    Args:
        logits: float[R, V].
        uniforms: float64[R] in [0, 1).
        temperature: Above 0.
        top_p: Smallest most-probable set with at least this mass is kept; 1 keeps all.

    Returns:
        int64[R] token ids.
    """
    probabilities = torch.softmax(logits.double() / temperature, dim=-1)
    if top_p < 1.0:
        probabilities, tokens = probabilities.sort(dim=-1, descending=True)
        before = probabilities.cumsum(dim=-1) - probabilities
        probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    cumulative = probabilities.cumsum(dim=-1)
    threshold = uniforms.to(cumulative).unsqueeze(1) * cumulative[:, -1:]
    choice = torch.searchsorted(cumulative, threshold, right=True)
    # Rounding may put the threshold on the last sum; the last token with mass is meant.
    last = (probabilities > 0).long().cumsum(dim=-1).argmax(dim=-1, keepdim=True)
    choice = torch.minimum(choice, last)
    return (tokens.gather(1, choice) if top_p < 1.0 else choice).squeeze(1)
