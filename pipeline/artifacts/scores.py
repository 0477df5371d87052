"""Columns of the tables of scores: what a model was found to think of tries, first tokens, items and documents."""

PATH_SCORE_COLUMNS = ("prompt_id", "target", "path_index", "prefix_index", "kl_nats")
"""One row per prompt, target, path and prefix along it."""

EXACT_COLUMNS = ("prompt_id", "wasserstein_1_low", "wasserstein_1_high", "support_low", "support_high")
"""One row per prompt; bounds are empty where there is no digit rule."""

LAW_EXACT_COLUMNS = ("law_exact_total_variation", "law_exact_wasserstein_1_normalised")
"""Beside prompt_id, of laws of one's own; empty where the trie is too large, and W1 where answers are no numbers."""

FIRST_STEP_COLUMNS = ("prompt_id", "token_ids", "probabilities", "entropy_nats", "vocabulary")
"""One row per prompt; ids and probabilities are lists, most probable first; the entropy is that of the whole law."""

ITEM_SCORE_COLUMNS = ("task", "item", "metric", "value", "details", "prompt_format")
"""One row per task, item (position in the task's split) and metric; details are JSON; all rows have one format."""

DOCUMENT_SCORE_COLUMNS = (
    *("bos", "slice", "file", "document", "nll_nats", "num_tokens", "num_bytes"),
    "starts_with_bos",
)
"""One row per variant and document; starts_with_bos: whether the model read a BOS token before it."""

WORD_DISTANCE_COLUMNS = ("prompt_id", "summary", "summary_index", "answer", "word", "distance")
"""One row per question, summary (its kind, and which of that kind), answer and hidden word of the answer."""

CDF_COLUMNS = ("prompt_id", "x", "cdf_low", "cdf_high", "target_cdf")
"""Columns of a table of distribution functions, one row per prompt and x."""

REPLY_DIVERGENCE_COLUMNS = ("prompt_id", "sample_index", "direction", "num_tokens", "divergence_nats")
"""One row per reply: of the base checkpoint (forward) and of the condition (reverse)."""
