"""Time NoveltyBench's partition and rewards: one pair at a time, batched rounds, and resumed.

The plain implementation is the benchmark's: responses one after another, one classifier call per
comparison, and every response rewarded, those of one prompt in one padded batch. Here all prompts
are compared in common rounds, batches hold pairs of similar length, equal pairs are scored once, and
only representatives are rewarded. Both must give the same partitions and ratings. The evaluators
have random weights, so the threshold is set near the median similarity; the responses repeat
themselves as those of a chat model do.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    Gemma2Config,
    Gemma2ForSequenceClassification,
    PreTrainedTokenizerFast,
)

from pipeline.core.language.novelty import (
    Pair,
    generation_ratings,
    partition_responses,
    rating,
    representatives,
    short_responses_equal,
)
from pipeline.engines.judges.evaluator import PairScorer
from pipeline.engines.judges.text_judges import PairClassifier, SequenceReward
from pipeline.engines.loading.model import default_device
from pipeline.stages.resumable import ResumableMap, pair_scores

VOCABULARY = 4000
RESPONSES = 10
TOKENS_PER_PASS = 4096
SHAPES = {
    "small": {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 512},
    # microsoft/deberta-v3-large
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
}
TEMPLATE = "{% for message in messages %}{{ message['content'] }} [SEP] {% endfor %}"


def word_tokenizer() -> PreTrainedTokenizerFast:
    """One token per word w0, w1, ..."""
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    words = [*special.values(), *(f"w{number}" for number in range(VOCABULARY))]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    wrapped.chat_template = TEMPLATE
    return wrapped


def evaluators(shape: str, device: str) -> tuple[PairClassifier, SequenceReward]:
    """A classifier and a reward model with random weights of the given shape."""
    tokenizer, sizes = word_tokenizer(), SHAPES[shape]
    torch.manual_seed(0)
    deberta = DebertaV2Config(
        vocab_size=len(tokenizer),
        max_position_embeddings=512,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=0,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=2,
        initializer_range=0.08,
        **sizes,
    )
    gemma = Gemma2Config(
        vocab_size=len(tokenizer),
        num_key_value_heads=sizes["num_attention_heads"] // 2,
        num_labels=1,
        head_dim=sizes["hidden_size"] // sizes["num_attention_heads"],
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.08,
        **sizes,
    )
    classifier = DebertaV2ForSequenceClassification(deberta).to(device).eval()
    reward = Gemma2ForSequenceClassification(gemma).to(device).eval()
    return (
        PairClassifier(classifier, tokenizer, max_tokens=128, tokens_per_pass=TOKENS_PER_PASS),
        SequenceReward(reward, tokenizer, max_tokens=4096, tokens_per_pass=TOKENS_PER_PASS),
    )


def workload(prompts: int) -> tuple[list[str], list[list[str]]]:
    """Requests, and ten responses to each: a third short, favourites repeated word for word."""
    rng = np.random.default_rng(0)

    def text(length: int) -> str:
        return " ".join(f"w{number}" for number in rng.integers(VOCABULARY, size=length))

    requests, responses = [text(12) for _ in range(prompts)], []
    for index in range(prompts):
        longest = 3 if index % 3 == 0 else 160
        variants = [text(int(rng.integers(1, longest + 1))) for _ in range(RESPONSES)]
        weights = 0.6 ** np.arange(RESPONSES)
        responses.append([variants[pick] for pick in rng.choice(RESPONSES, RESPONSES, p=weights / weights.sum())])
    return requests, responses


def partition_plain(
    responses: Sequence[Sequence[str]], classifier: PairScorer, threshold: float
) -> tuple[list[list[int]], int]:
    """Partitions and classifier calls of the obvious code: one comparison after another."""
    partitions, calls = [], 0
    for texts in responses:
        labels, heads = [], []
        for text in texts:
            for label, head in enumerate(heads):
                equal = short_responses_equal(head, text)
                if equal is None:
                    equal = classifier.scores([(head, text)])[0] > threshold
                    calls += 1
                if equal:
                    labels.append(label)
                    break
            else:
                labels.append(len(heads))
                heads.append(text)
        partitions.append(labels)
    return partitions, calls


def reward_plain(
    requests: Sequence[str],
    responses: Sequence[Sequence[str]],
    partitions: Sequence[Sequence[int]],
    reward: SequenceReward,
) -> tuple[list[list[int]], int]:
    """Ratings and reward calls of the obvious code: all responses of a prompt in one batch."""
    ratings = []
    alone = SequenceReward(reward.model, reward.tokenizer, max_tokens=reward.max_tokens, tokens_per_pass=10**9)
    for request, texts, partition in zip(requests, responses, partitions, strict=True):
        values = alone.scores([(request, text) for text in texts])
        ratings.append(generation_ratings(partition, [rating(values[first]) for first in representatives(partition)]))
    return ratings, sum(map(len, responses))


def reward_representatives(
    requests: Sequence[str],
    responses: Sequence[Sequence[str]],
    partitions: Sequence[Sequence[int]],
    scores: Callable[[Sequence[Pair]], np.ndarray],
) -> list[list[int]]:
    """The same ratings from the representatives' rewards alone."""
    pairs: list[Pair] = [
        (request, texts[first])
        for request, texts, partition in zip(requests, responses, partitions, strict=True)
        for first in representatives(partition)
    ]
    values = iter(scores(pairs).tolist())
    return [generation_ratings(p, [rating(next(values)) for _ in representatives(p)]) for p in partitions]


def _clear_threshold(similarities: np.ndarray) -> float:
    """The middle of the widest gap in the central third of the similarities, which rounding does not cross."""
    count = len(similarities)
    central = np.sort(similarities)[count // 3 : count - count // 3]
    widest = int(np.diff(central).argmax())
    return float(central[widest : widest + 2].mean())


def _timed(call: Callable[[], tuple[Any, int]]) -> tuple[float, Any, int]:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    started = time.perf_counter()
    result, calls = call()
    return time.perf_counter() - started, result, calls


def run(prompts: int = 24, shape: str = "small", device: str | None = None) -> list[dict[str, Any]]:
    """Time both steps in three ways each.

    Args:
        prompts: Prompts with ten responses each.
        shape: One of SHAPES, for both evaluators.
        device: Where they run; None takes a GPU where there is one.

    Returns:
        One row per step and implementation. ``ratio`` is the plain implementation's seconds
        over this one's, ``calls`` the texts or pairs given to the evaluator, ``different`` the
        responses whose class or rating is not the plain implementation's.
    """
    device = device or default_device()
    classifier, reward = evaluators(shape, device)
    requests, responses = workload(prompts)
    sample = [(texts[0], text) for texts in responses for text in texts[1:] if text != texts[0]]
    threshold = _clear_threshold(classifier.scores(sample))
    reward.scores([(requests[0], responses[1][0])])

    rows = []
    with tempfile.TemporaryDirectory() as directory:

        def scored(name: str, scorer: PairScorer, work: Callable) -> tuple[list[list[int]], int]:
            done = ResumableMap(Path(directory) / name)
            known = len(done.values)
            return work(pair_scores(done, lambda: scorer)), len(done.values) - known

        def partition_rounds() -> tuple[list[list[int]], int]:
            return scored("pairs", classifier, lambda scores: partition_responses(responses, scores, threshold)[0])

        plain = _timed(lambda: partition_plain(responses, classifier, threshold))
        runs = {"plain": plain, "rounds": _timed(partition_rounds), "rounds, resumed": _timed(partition_rounds)}
        rows += _rows(f"partition, {shape}, {device}", runs)
        partitions = plain[1]

        def reward_here() -> tuple[list[list[int]], int]:
            asked = requests, responses, partitions
            return scored("rewards", reward, lambda scores: reward_representatives(*asked, scores))

        plain = _timed(lambda: reward_plain(requests, responses, partitions, reward))
        runs = {"plain": plain, "representatives": _timed(reward_here), "resumed": _timed(reward_here)}
        rows += _rows(f"reward, {shape}, {device}", runs)
    return rows


def _rows(case: str, runs: dict[str, tuple[float, list[list[int]], int]]) -> list[dict[str, Any]]:
    seconds, expected, _ = runs["plain"]
    total = sum(map(len, expected))
    return [
        {
            "case": case,
            "implementation": name,
            "seconds": taken,
            "ratio": seconds / taken,
            "calls": calls,
            "responses": total,
            "different": sum(a != b for x, y in zip(found, expected, strict=True) for a, b in zip(x, y, strict=True)),
        }
        for name, (taken, found, calls) in runs.items()
    ]
