"""How far an adapted model has moved from its base checkpoint on held-out instructions, in nats per token."""

from collections.abc import Mapping

import pandas as pd

from pipeline.core.statistics.summarise import ratio_of

METRIC_NAMES = {"forward": "anchor_kl_nats", "reverse": "anchor_reverse_kl_nats"}
"""By direction: of the base checkpoint from the model on the base's replies, and the other way round on its own."""
PER_TOKEN = ratio_of("divergence_nats", "num_tokens")
"""By the chain rule a reply's sum is an unbiased estimate of the KL of replies up to where they are cut."""


def prompt_sums(scores: pd.DataFrame, categories: Mapping[str, str]) -> pd.DataFrame:
    """Sums over the replies to each instruction.

    Args:
        scores: Columns prompt_id, direction, num_tokens and divergence_nats, one row per reply and direction.
        categories: Kind of each instruction by its id.

    Returns:
        Columns prompt_id, kind, direction, num_tokens, divergence_nats, in the instructions' order.
    """
    sums = scores.groupby(["prompt_id", "direction"], sort=False)[["num_tokens", "divergence_nats"]].sum().reset_index()
    sums.insert(1, "kind", sums["prompt_id"].map(categories))
    place = {name: index for index, name in enumerate(categories)}
    return sums.sort_values("prompt_id", key=lambda column: column.map(place), kind="stable", ignore_index=True)
