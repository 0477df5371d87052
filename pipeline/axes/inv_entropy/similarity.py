"""What the stages of perturbed questions share: vectors of texts, whose cosines say how alike the texts are."""

from collections.abc import Callable, Sequence

import numpy as np

from pipeline.axes.inv_entropy.chains import GRAM, ngram_counts
from pipeline.config.evaluation import SimilarityConfig
from pipeline.dag.execution import StageRun

Embed = Callable[[Sequence[str]], np.ndarray]
"""float64[n, d] of n texts; rows of one call alone can be compared."""


def open_similarity(run: StageRun, config: SimilarityConfig) -> Embed:
    """What makes vectors of texts, recorded with all that they depend on. Raises ModelError."""
    if config.kind == "ngrams":
        run.record.add(similarity={"kind": config.kind, "characters": GRAM})
        return ngram_counts
    from pipeline.engines.judges.sentence_embedding import embedding_identity, open_embedder

    identity = embedding_identity(config)
    run.record.add(similarity=identity)
    return open_embedder(config, identity)
