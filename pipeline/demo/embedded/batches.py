"""Endless batches of training text, made block by block, at a position that can be saved and gone back to."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from pipeline.demo.embedded.instructions import Exchange, InstructionStream
from pipeline.demo.embedded.recipe import Recipe, example_texts, prose_documents
from pipeline.demo.embedded.tokenizer import END_OF_TEXT

IGNORED = -100
"""Label of a position that is not supervised."""

Batch = tuple[torch.Tensor, torch.Tensor]
"""Inputs and labels, int64[B, T]."""


def random_state(rng: np.random.Generator) -> dict[str, Any]:
    """The position of a random generator; JSON."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(item) for key, item in value.items()}
        return value.tolist() if isinstance(value, np.ndarray) else value

    return plain(rng.bit_generator.state)


class BatchStream(Iterator[Batch]):
    """Batches of one block after the other.

    The position is that of the random generator before the block, and the number of batches taken from it: going
    back to it makes one block again.
    """

    def __init__(
        self, make_block: Callable[[], list[Batch]], rng: np.random.Generator, source: InstructionStream | None = None
    ) -> None:
        """``make_block`` draws from ``rng`` and takes from ``source``, and depends on nothing else that changes."""
        self._make_block, self._rng, self._source = make_block, rng, source
        self._left: deque[Batch] = deque()
        self._begin()

    def _begin(self) -> None:
        self._taken, self._random = 0, random_state(self._rng)
        self._position = None if self._source is None else self._source.state

    def __next__(self) -> Batch:
        while not self._left:
            self._begin()
            self._left.extend(self._make_block())
        self._taken += 1
        return self._left.popleft()

    @property
    def state(self) -> dict[str, Any]:
        """Where the stream is; JSON."""
        return {"random": self._random, "source": self._position, "taken": self._taken}

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None:
        self._rng.bit_generator.state = state["random"]
        if self._source is not None:
            self._source.state = state["source"]
        self._left.clear()
        self._begin()
        for _ in range(state["taken"]):
            next(self)


def instruction_batches(
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerFast,
    rng: np.random.Generator,
    source: InstructionStream,
    rewrite: Callable[[list[Exchange]], list[Exchange]] = lambda exchanges: exchanges,
) -> BatchStream:
    """Batches of examples of like length; only replies are supervised.

    Args:
        recipe: Says how many tokens a batch has, and of how many groups of exchanges a block is made.
        tokenizer: From ``train_tokenizer``.
        rng: Also that of ``source``.
        source: The exchanges.
        rewrite: Applied to the exchanges of a block; must depend on them alone.
    """

    def make_block() -> list[Batch]:
        exchanges = rewrite([exchange for _ in range(recipe.groups_per_block) for exchange in next(source)])
        prompts, replies = zip(*map(example_texts, exchanges), strict=True)
        prompt_ids = tokenizer(list(prompts), add_special_tokens=False)["input_ids"]
        reply_ids = tokenizer(list(replies), add_special_tokens=False)["input_ids"]
        lengths = np.array([len(p) + len(r) for p, r in zip(prompt_ids, reply_ids, strict=True)])
        order = np.argsort(lengths + rng.uniform(0, 4, len(lengths)))
        rows = _rows_of_batches(lengths, order, recipe.tokens_per_batch)
        return [_padded(prompt_ids, reply_ids, rows[index]) for index in rng.permutation(len(rows))]

    return BatchStream(make_block, rng, source)


def _rows_of_batches(lengths: np.ndarray, order: np.ndarray, tokens_per_batch: int) -> list[np.ndarray]:
    """Consecutive parts of ``order`` that take at most so many tokens each, with padding; at least one example."""
    batches, start = [], 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop - start + 1) * lengths[order[stop]] <= tokens_per_batch:
            stop += 1
        batches.append(order[start:stop])
        start = stop
    return batches


def _padded(prompts: list[list[int]], replies: list[list[int]], rows: np.ndarray) -> Batch:
    width = max(len(prompts[row]) + len(replies[row]) for row in rows)
    inputs = np.zeros((len(rows), width), dtype=np.int64)
    labels = np.full((len(rows), width), IGNORED, dtype=np.int64)
    for place, row in enumerate(rows):
        prompt, reply = prompts[row], replies[row]
        inputs[place, : len(prompt) + len(reply)] = prompt + reply
        labels[place, len(prompt) : len(prompt) + len(reply)] = reply
    return torch.from_numpy(inputs), torch.from_numpy(labels)


def prose_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: np.random.Generator) -> BatchStream:
    """Batches of windows of prose, all of it supervised; a block is all documents once, in random order."""
    documents = tokenizer([text + END_OF_TEXT for text in prose_documents()], add_special_tokens=False)["input_ids"]
    rows = recipe.tokens_per_batch // recipe.prose_window

    def make_block() -> list[Batch]:
        flat = np.concatenate([documents[index] for index in rng.permutation(len(documents))])
        flat = flat[rng.integers(recipe.prose_window) :]
        windows = flat[: len(flat) // recipe.prose_window * recipe.prose_window].reshape(-1, recipe.prose_window)
        windows = torch.from_numpy(windows[rng.permutation(len(windows))].astype(np.int64))
        starts = range(0, len(windows) - rows + 1, rows)
        return [(windows[start : start + rows], windows[start : start + rows]) for start in starts]

    return BatchStream(make_block, rng)
