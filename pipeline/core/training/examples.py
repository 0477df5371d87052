"""What each optimiser step sees: family-balanced orders, and examples, each a prompt with a tree of completions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pipeline.core.laws.discretize import OutputSpace
from pipeline.core.random_streams import random_stream
from pipeline.core.tries.implicit_trie import ImplicitTrie
from pipeline.core.tries.token_tree import ROOT, TokenTree, merge_sequences
from pipeline.core.tries.trie import Trie
from pipeline.errors import ConfigError

LossReduction = Literal["token", "completion"]


def _shuffled_members(families: Sequence[str], rng: np.random.Generator) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {}
    for index in rng.permutation(len(families)).tolist():
        members.setdefault(families[index], []).append(index)
    return members


def even_order(families: Sequence[str], rng: np.random.Generator) -> list[int]:
    """A permutation of ``range(len(families))`` that spreads the items of every family, shuffled, over its length.
    Families of one size come in rounds, and of a large one no rest is left for the end."""
    places = np.empty(len(families))
    for _, indices in sorted(_shuffled_members(families, rng).items()):
        places[indices] = (np.arange(len(indices)) + rng.random(len(indices))) / len(indices)
    return np.argsort(places, kind="stable").tolist()


def family_balanced_order(families: Sequence[str], rng: np.random.Generator) -> list[int]:
    """A permutation of ``range(len(families))`` in rounds over the families that have items left, in random order,
    items shuffled within each."""
    waiting, order = _shuffled_members(families, rng), []
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
    """One training example before tokens: a prompt, and the how-manieth of its examples in the epoch."""

    prompt_index: int
    epoch: int
    repetition: int


def training_steps(
    families: Sequence[str],
    epochs: int,
    examples_per_prompt: int,
    batch_size: int,
    seed: int,
    *names: str,
    order: Literal["rounds", "even"] = "rounds",
) -> list[list[Draw]]:
    """The draws of every optimiser step, reshuffled every epoch (Algorithms 1 and 2); an epoch's last step may be
    smaller. ``names`` are model and method."""
    steps, ordered = [], even_order if order == "even" else family_balanced_order
    items = [(prompt, repetition) for repetition in range(examples_per_prompt) for prompt in range(len(families))]
    for epoch in range(epochs):
        rng = random_stream(seed, "order", *names, epoch)
        places = ordered([families[prompt] for prompt, _ in items], rng)
        draws = [Draw(items[index][0], epoch, items[index][1]) for index in places]
        steps.extend(draws[start : start + batch_size] for start in range(0, len(draws), batch_size))
    return steps


@dataclass(frozen=True)
class Example:
    """A prompt, completions behind it as a tree of prefixes, and a target at P of the prefixes. The terminator is a
    target, never an input: a completion of L tokens has L nodes and L + 1 supervised prefixes."""

    prompt_ids: Sequence[int]
    tree: TokenTree
    """Input nodes behind the prompt."""
    nodes: np.ndarray
    """int64[P], node of each supervised prefix; ROOT is the last token of the prompt."""
    weights: np.ndarray
    """float64[P], share of each prefix in the loss of the example; they sum to 1."""
    offsets: np.ndarray
    """int64[P + 1]; candidates of prefix i are offsets[i]:offsets[i + 1]."""
    token_ids: np.ndarray
    """int64[C], candidate next tokens."""
    probabilities: np.ndarray
    """float64[C], target probabilities; sum to 1 over each prefix."""
    sequences: int
    size: float = 1.0
    """Its weight in its step: 1, or its number of tokens where a step's loss is a mean over tokens."""

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence: prompt, completion and terminator."""
        return len(self.prompt_ids) + int(self.tree.depths.max(initial=0)) + 1

    @property
    def num_inputs(self) -> int:
        return len(self.prompt_ids) + len(self.tree)


def _merged_example(
    prompt_ids: Sequence[int],
    completions: Sequence[Sequence[int]],
    targets: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]] | None = None,
    loss_reduction: LossReduction = "completion",
) -> Example:
    """Completions (terminator last) as one tree; a completion's positions weigh alike, and so does each completion
    ("completion") or each token of all of them ("token"). ``targets`` gives the distribution at each position, by
    default that of the tokens that follow in ``completions``."""
    tree, nodes_of = merge_sequences([completion[:-1] for completion in completions])
    # Index 0 is the root, so that a node is one more than its index in the tree.
    weights = np.zeros(len(tree) + 1)
    following: list[dict[int, float]] = [{} for _ in weights]
    num_tokens = sum(map(len, completions))
    for row, (completion, nodes) in enumerate(zip(completions, nodes_of, strict=True)):
        share = 1.0 / (len(completion) * len(completions) if loss_reduction == "completion" else num_tokens)
        for position, node in enumerate([0, *(nodes + 1).tolist()]):
            weights[node] += share
            if targets is None:
                token = int(completion[position])
                following[node][token] = following[node].get(token, 0.0) + share
            elif not following[node]:
                ids, probabilities = targets[row][position]
                following[node] = dict(zip(ids.tolist(), probabilities.tolist(), strict=True))
    probabilities = np.array([mass for laws in following for mass in laws.values()])
    counts = np.array([len(law) for law in following])
    if targets is None:
        probabilities /= np.repeat(weights, counts)
    return Example(
        prompt_ids=prompt_ids,
        tree=tree,
        nodes=np.arange(ROOT, len(tree)),
        weights=weights,
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        token_ids=np.array([token for law in following for token in law], dtype=np.int64),
        probabilities=probabilities,
        sequences=len(completions),
        size=1.0 if loss_reduction == "completion" else float(num_tokens),
    )


def soft_example(
    prompt_ids: Sequence[int],
    trie: Trie | ImplicitTrie,
    rng: np.random.Generator,
    num_paths: int = 1,
    loss_reduction: LossReduction = "completion",
) -> Example:
    """Paths y ~ P_Y with the trie's next-token distribution at each of their prefixes (Eq. 3): the mean over paths of
    the mean of KL(q || model) over a path's L + 1 prefixes, or with "token" over the prefixes of all paths. One path is
    the paper's Algorithm 1."""
    tokens, candidates = zip(*trie.sample_paths(rng, num_paths), strict=True)
    return _merged_example(prompt_ids, tokens, candidates, loss_reduction)


def sample_string(space: OutputSpace, rng: np.random.Generator) -> str:
    """One canonical string y ~ P_Y."""
    cumulative = np.cumsum(space.probabilities)
    choice = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
    return space.values[min(choice, len(space.values) - 1)]


def hard_example(
    prompt_ids: Sequence[int], completions: Sequence[Sequence[int]], loss_reduction: LossReduction = "completion"
) -> Example:
    """Sampled completions (terminator last) as their own targets: "completion" is Eq. 4, a mean over each completion's
    tokens, then over completions; "token" is Algorithm 2, line 14, one mean over all tokens of the step."""
    return _merged_example(prompt_ids, completions, loss_reduction=loss_reduction)


def anchor_example(prompt_ids: Sequence[int], reply_ids: Sequence[int], max_length: int) -> Example:
    """A reply to a general instruction, the terminator last where it ended by itself, every token a supervised position
    up to ``max_length`` with the instruction. Raises ConfigError where that leaves no room for a reply."""
    room = max_length - len(prompt_ids)
    if room < 1:
        raise ConfigError(
            f"train.max_length: {max_length} is too small for an instruction of {len(prompt_ids)} tokens and its reply"
        )
    return hard_example(prompt_ids, [reply_ids[:room]], "token")
