"""Perplexity of documents: one after another, and many windows per forward pass.

The plain implementation is the obvious one: tokenise a document, run one window at a time, take the logits of all
its positions. Here windows of all documents are sorted by length and batched under a token budget, and only
states that score a token reach the output head. Both must give the same sums of negative log-likelihoods;
``difference`` is the largest relative one of any document. Documents are cuts of CPython's help texts: lines as
in short-text corpora, sentences, and pages that take several windows. What is won is the cost of a call, so the gain
falls with the length, and it is larger where a call costs more than its arithmetic, as on a GPU.
"""

import pydoc_data.topics
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.measure import best
from benchmarks.workload import MODEL
from pipeline.config.models import ModelConfig
from pipeline.core.retention.windows import scoring_windows
from pipeline.engines.loading.model import default_device, load_model, load_tokenizer
from pipeline.engines.scoring.perplexity import PerplexityScorer

CHARACTERS = {"lines": 18, "sentences": 80, "pages": 1800}
"""Characters of a document by case."""
WINDOW, STRIDE = 512, 256
TOKENS_PER_PASS = {"cpu": 512, "cuda": 16384}
"""On a CPU as much as its cache holds the activations of."""


def documents(characters: int, count: int) -> list[str]:
    """At most ``count`` cuts of that many characters of CPython's help texts."""
    text = "".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    return [text[start : start + characters] for start in range(0, min(len(text), count * characters), characters)]


@torch.inference_mode()
def plain(model: torch.nn.Module, tokenizer: Any, texts: Sequence[str], window: int, stride: int) -> np.ndarray:
    """float64[n] NLL in nats of every document: one window per forward pass, logits of all positions."""
    device, sums = next(model.parameters()).device, []
    for text in texts:
        ids, total = tokenizer(text, add_special_tokens=False)["input_ids"], 0.0
        for part in scoring_windows(len(ids), window, stride, has_bos=False):
            inputs = torch.tensor([ids[part.start : part.stop]], device=device)
            logs = torch.log_softmax(model(input_ids=inputs).logits[0].float(), dim=-1)
            losses = -logs[:-1].gather(1, inputs[0, 1:, None])[:, 0]
            total += losses[part.scored - part.start - 1 :].double().sum().item()
        sums.append(total)
    return np.array(sums)


def run(
    count: int = 400, repeats: int = 3, device: str | None = None, config: ModelConfig = MODEL
) -> list[dict[str, Any]]:
    """Time both on the embedded model, or on the checkpoint of ``config``.

    Args:
        count: Documents of the shortest kind; there are as many of the others as have at most 5 times their text.
        repeats: Runs of each, of which the shortest counts.
        device: None takes a GPU where there is one.
        config: The model.

    Returns:
        Two rows per case. ``ratio`` is the plain implementation's seconds over this one's.
    """
    device = device or default_device()
    model, tokenizer = load_model(config, device=device), load_tokenizer(config)
    scorer = PerplexityScorer(
        model, tokenizer, window=WINDOW, stride=STRIDE, tokens_per_pass=TOKENS_PER_PASS[torch.device(device).type]
    )
    rows = []
    for name, characters in CHARACTERS.items():
        size = max(2, min(count, 5 * count * CHARACTERS["lines"] // characters))
        texts = documents(characters, size)
        tokens = sum(map(len, scorer.encode(texts)))
        # What is made at the first call belongs to neither.
        plain(model, tokenizer, texts[:2], WINDOW, STRIDE)
        scorer.score(texts[:2], None)
        seconds, expected = best(lambda texts=texts: plain(model, tokenizer, texts, WINDOW, STRIDE), repeats)
        packed, found = best(
            lambda texts=texts: np.array([score.nll_nats for score in scorer.score(texts, None)]), repeats
        )
        case = f"{name}: {len(texts)} documents of {tokens / len(texts):.0f} tokens"
        for implementation, taken, values in (("one window at a time", seconds, expected), ("packed", packed, found)):
            rows.append(
                {
                    "case": case,
                    "implementation": implementation,
                    "seconds": taken,
                    "ratio": seconds / taken,
                    "tokens_per_second": tokens / taken,
                    "difference": float(np.max(np.abs(values - expected) / np.maximum(np.abs(expected), 1e-9))),
                }
            )
    return rows
