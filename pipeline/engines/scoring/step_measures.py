"""How unsure a model is along replies: measures of the law of every token, and their means over a reply's tokens.

The measures are those of ``pipeline.core.semantics.uncertainty.token_measures``, taken of many laws at once and where
the model is: laws over a whole vocabulary are too large to keep, or to move.
"""

from collections.abc import Sequence

import numpy as np
import torch

from pipeline.core.semantics.uncertainty import TOP_K, TOP_P
from pipeline.engines.loading.memory import MemoryLimit, right_padded
from pipeline.engines.loading.model import PositionLogits
from pipeline.engines.scoring.token_scores import float32_logits, most_tokens

LAWS_PER_CALL = 64
"""Laws that are sorted at a time, in float64 with their sums: 0.3 GB at 151,936 tokens."""


def law_measures(logits: torch.Tensor) -> dict[str, torch.Tensor]:
    """Measures of P laws, each float64[P], by their names in ``token_measures``; without the sizes of nuclei.

    Args:
        logits: float32[P, V], V at least 2.
    """
    ordered = logits.sort(dim=1, descending=True).values.double().softmax(dim=1)
    mass, entropy = ordered.cumsum(dim=1), torch.special.entr(ordered).cumsum(dim=1)

    def of_leading(sizes: torch.Tensor) -> torch.Tensor:
        """H / ln n of the n most probable tokens of each law, renormalised; 0 for one token."""
        total, found = (sums.gather(1, sizes[:, None] - 1)[:, 0] for sums in (mass, entropy))
        return torch.where(sizes > 1, (found / total + total.log()).clamp(min=0) / sizes.double().log(), 0.0)

    whole = torch.full((len(logits),), logits.shape[1], device=logits.device)
    return {
        "total_entropy": of_leading(whole),
        "log_top_probability": ordered[:, 0].log(),
        **{f"top_k_entropy_{k}": of_leading(whole.clamp(max=k)) for k in TOP_K},
        **{f"top_p_entropy_{share:g}": of_leading(1 + (mass[:, :-1] < share).sum(dim=1)) for share in TOP_P},
    }


class StepMeasures:
    """Means of the measures over the tokens of replies.

    Args:
        logits_at: The model, in evaluation mode.
        tokens_per_pass: Tokens per forward pass at most, padding included; a longer reply goes alone.
    """

    def __init__(self, logits_at: PositionLogits, tokens_per_pass: int):
        self._logits_at, self._memory = logits_at, MemoryLimit()
        self._tokens_per_pass = most_tokens(logits_at, tokens_per_pass)

    @torch.inference_mode()
    def means(self, prompt: Sequence[int], replies: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        """The measures of the law of every token of R replies to one prompt, averaged over each reply's tokens.

        Args:
            prompt: Token ids of the encoded request.
            replies: Token ids, at least one each.

        Returns:
            float64[R] by name, see ``law_measures``.

        Raises:
            ModelError: The GPU's memory is too small for a single reply.
        """

        def run(members: list[int]) -> list[dict[str, float]]:
            # The last token of a reply has no law behind it that is asked for. Padding is on the right, where
            # attention does not look, and needs no mask.
            rows = [[*prompt, *replies[index]][:-1] for index in members]
            ids, own = right_padded(rows, self._logits_at.device)
            own[:, : len(prompt) - 1] = False
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
            states = self._logits_at.forward(inputs)[0][own]
            parts = [law_measures(float32_logits(self._logits_at, part)) for part in states.split(LAWS_PER_CALL)]
            sizes = [len(replies[index]) for index in members]
            found = {name: torch.cat([part[name] for part in parts]).cpu().split(sizes) for name in parts[0]}
            return [{name: float(values[place].mean()) for name, values in found.items()} for place in range(len(rows))]

        lengths = [len(prompt) + len(reply) - 1 for reply in replies]
        done: dict[int, dict[str, float]] = {}
        for members, found in self._memory.run(lengths, self._tokens_per_pass, run):
            done |= zip(members, found, strict=True)
        return {name: np.array([done[index][name] for index in range(len(replies))]) for name in done[0]}
