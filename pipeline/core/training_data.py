"""What each optimiser step sees: family-balanced order and sampled examples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pipeline.core.discretize import OutputSpace
from pipeline.core.objectives import Targets
from pipeline.core.random_streams import random_stream
from pipeline.core.trie import Trie


def family_balanced_order(families: Sequence[str], rng: np.random.Generator) -> list[int]:
    """An order in which families alternate.

    Rounds over the families in random order, one item of each family that still has any;
    items are shuffled within their family.

    Args:
        families: Family of each item.
        rng: Stream of this epoch.

    Returns:
        A permutation of ``range(len(families))``.
    """
    waiting: dict[str, list[int]] = {}
    for index in rng.permutation(len(families)).tolist():
        waiting.setdefault(families[index], []).append(index)
    order: list[int] = []
    while waiting:
        names = sorted(waiting)
        for position in rng.permutation(len(names)):
            queue = waiting[names[position]]
            order.append(queue.pop())
            if not queue:
                del waiting[names[position]]
    return order


@dataclass(frozen=True)
class Draw:
    """One training example before tokens: a prompt and the name of its random stream."""

    prompt_index: int
    epoch: int
    repetition: int


def training_steps(
    families: Sequence[str], epochs: int, samples_per_prompt: int, batch_size: int, seed: int, *names: str
) -> list[list[Draw]]:
    """The draws of every optimiser step, reshuffled every epoch (Algorithms 1 and 2).

    A step never spans two epochs, so an epoch's last step may be smaller: the paper's
    1,988 prompts make 63 steps of 32 per epoch, 189 in three.

    Args:
        families: Family of each prompt.
        epochs: Passes over the prompts.
        samples_per_prompt: Fresh samples of each prompt within an epoch.
        batch_size: Draws per step.
        seed: Root seed; ``names`` (model, method) complete the stream's name.
    """
    steps = []
    items = [(prompt, repetition) for repetition in range(samples_per_prompt) for prompt in range(len(families))]
    for epoch in range(epochs):
        rng = random_stream(seed, "order", *names, epoch)
        order = family_balanced_order([families[prompt] for prompt, _ in items], rng)
        draws = [Draw(items[index][0], epoch, items[index][1]) for index in order]
        steps.extend(draws[start : start + batch_size] for start in range(0, len(draws), batch_size))
    return steps


@dataclass(frozen=True)
class Example:
    """A prompt, a sampled completion and the targets at each of its positions.

    Attributes:
        prompt_ids: Token ids of the encoded prompt.
        completion: int[L + 1] token ids, terminator last.
        candidates: L + 1 pairs (token ids, probabilities), one for each completion position.
    """

    prompt_ids: Sequence[int]
    completion: np.ndarray
    candidates: Sequence[tuple[np.ndarray, np.ndarray]]


def soft_example(prompt_ids: Sequence[int], trie: Trie, rng: np.random.Generator) -> Example:
    """A path y ~ P_Y with the trie's next-token distribution at each of its prefixes (Eq. 3)."""
    completion, candidates = trie.sample_path(rng)
    return Example(prompt_ids, completion, candidates)


def sample_string(space: OutputSpace, rng: np.random.Generator) -> str:
    """One canonical string y ~ P_Y."""
    cumulative = np.cumsum(space.probabilities)
    choice = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
    return space.values[min(choice, len(space.values) - 1)]


def hard_example(prompt_ids: Sequence[int], completion: Sequence[int]) -> Example:
    """A sampled completion (terminator last) as its own one-hot targets (Eq. 4)."""
    tokens = np.asarray(completion, dtype=np.int32)
    return Example(prompt_ids, tokens, [(tokens[k : k + 1], np.ones(1)) for k in range(len(tokens))])


@dataclass(frozen=True)
class Batch:
    """Right-padded inputs and the P supervised positions among them.

    Attributes:
        input_ids: int64[B, T]; the terminator itself is never an input.
        attention_mask: int64[B, T], 1 on tokens.
        rows: int64[P], sequence of each supervised position.
        columns: int64[P], the position whose logits predict the next token.
        targets: The P targets.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor
    targets: Targets


def collate(examples: Sequence[Example], pad_id: int, sequences_in_step: int | None = None) -> Batch:
    """Pad examples into a batch.

    Args:
        examples: The sequences of one forward pass.
        pad_id: Fills the right of shorter rows; masked and never supervised.
        sequences_in_step: Sequences that share the optimiser step, if there are more than
            in this batch; every sequence weighs one over this number.
    """
    total = sequences_in_step or len(examples)
    inputs = [np.concatenate([np.asarray(e.prompt_ids), e.completion[:-1]]) for e in examples]
    width = max(map(len, inputs))
    input_ids = np.full((len(examples), width), pad_id, dtype=np.int64)
    mask = np.zeros((len(examples), width), dtype=np.int64)
    for row, tokens in enumerate(inputs):
        input_ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    lengths = np.array([len(e.completion) for e in examples])
    starts = np.array([len(e.prompt_ids) - 1 for e in examples])
    candidates = [pair for example in examples for pair in example.candidates]
    most = max(len(ids) for ids, _ in candidates)
    token_ids = np.zeros((len(candidates), most), dtype=np.int64)
    probabilities = np.zeros((len(candidates), most), dtype=np.float32)
    for position, (ids, target) in enumerate(candidates):
        token_ids[position, : len(ids)] = ids
        probabilities[position, : len(ids)] = target
    return Batch(
        input_ids=torch.from_numpy(input_ids),
        attention_mask=torch.from_numpy(mask),
        rows=torch.from_numpy(np.repeat(np.arange(len(examples)), lengths)),
        columns=torch.from_numpy(np.concatenate([s + np.arange(n) for s, n in zip(starts, lengths, strict=True)])),
        targets=Targets(
            torch.from_numpy(token_ids),
            torch.from_numpy(probabilities),
            torch.from_numpy(np.repeat(1.0 / (lengths * total), lengths).astype(np.float32)),
        ),
    )
