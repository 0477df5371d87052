"""From examples to the tensors of a forward pass: padding, masks of token trees, cutting of large trees."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
import torch
from scipy.sparse import csgraph, csr_array

from pipeline.core.training.examples import Example
from pipeline.core.training.objectives import Targets
from pipeline.core.tries.token_tree import ROOT, TokenTree, merge_sequences


@dataclass(frozen=True)
class Batch:
    """Right-padded inputs and the P supervised positions among them."""

    input_ids: torch.Tensor
    """int64[B, T]; the terminator itself is never an input."""
    attention_mask: torch.Tensor
    """int64[B, T], 1 on tokens."""
    allowed: torch.Tensor | None
    """bool[B, 1, T, T], True where position j may be attended to from position i; None where every row is a single
    sequence and attention is plainly causal."""
    position_ids: torch.Tensor | None
    """int64[B, T], tokens before each one in its sequence; None with ``allowed``."""
    rows: torch.Tensor
    """int64[P], row of each supervised position."""
    columns: torch.Tensor
    """int64[P], the position whose logits predict the next token."""
    targets: Targets

    def to(self, device: torch.device | str) -> "Batch":
        return Batch(**{name: value if value is None else value.to(device) for name, value in vars(self).items()})


def collate(examples: Sequence[Example], pad_id: int, step_size: float | None = None) -> Batch:
    """Pad examples, whole or parts of them, into a batch; ``step_size`` is the sum of ``Example.size`` over all whole
    examples of the optimiser step, if there are more than these."""
    total = step_size or sum(example.size for example in examples)
    width = max(example.num_inputs for example in examples)
    input_ids = np.full((len(examples), width), pad_id, dtype=np.int64)
    mask = np.zeros((len(examples), width), dtype=np.int64)
    for row, example in enumerate(examples):
        prompt, end = len(example.prompt_ids), example.num_inputs
        input_ids[row, :prompt] = example.prompt_ids
        input_ids[row, prompt:end] = example.tree.tokens
        mask[row, :end] = 1
    allowed = position_ids = None
    if not all(example.tree.is_chain for example in examples):
        allowed, position_ids = map(torch.from_numpy, _tree_attention(examples, width))
    # Column of node n is len(prompt) + n, which for ROOT = -1 is the prompt's last token.
    columns = np.concatenate([len(example.prompt_ids) + example.nodes for example in examples])
    weights = np.concatenate([example.weights * example.size for example in examples]) / total
    # Candidates of all supervised positions, [P, K].
    counts = np.concatenate([np.diff(example.offsets) for example in examples])
    filled = np.arange(counts.max()) < counts[:, None]
    token_ids, probabilities = np.zeros(filled.shape, dtype=np.int64), np.zeros(filled.shape, dtype=np.float32)
    token_ids[filled] = np.concatenate([example.token_ids for example in examples])
    probabilities[filled] = np.concatenate([example.probabilities for example in examples])
    return Batch(
        input_ids=torch.from_numpy(input_ids),
        attention_mask=torch.from_numpy(mask),
        allowed=allowed,
        position_ids=position_ids,
        rows=torch.from_numpy(np.repeat(np.arange(len(examples)), [len(example.nodes) for example in examples])),
        columns=torch.from_numpy(columns),
        targets=Targets(*map(torch.from_numpy, (token_ids, probabilities, weights.astype(np.float32)))),
    )


def _tree_attention(examples: Sequence[Example], width: int) -> tuple[np.ndarray, np.ndarray]:
    """Who may attend to whom, bool[B, 1, T, T], and positions, int64[B, T]."""
    # Padding attends to itself: a row of the mask with nothing allowed would give NaN.
    allowed = np.repeat(np.eye(width, dtype=bool)[None, None], len(examples), axis=0)
    position_ids = np.zeros((len(examples), width), dtype=np.int64)
    for row, example in enumerate(examples):
        prompt, end = len(example.prompt_ids), example.num_inputs
        allowed[row, 0, :prompt, :prompt] = np.tri(prompt, dtype=bool)
        allowed[row, 0, prompt:end, :prompt] = True
        allowed[row, 0, prompt:end, prompt:end] = example.tree.ancestor_mask()
        position_ids[row, :prompt] = np.arange(prompt)
        position_ids[row, prompt:end] = prompt - 1 + example.tree.depths
    return allowed, position_ids


@dataclass(frozen=True)
class PassCost:
    """What a forward pass takes, in any unit: ``per_token`` for the linear maps, ``per_pair`` for attention."""

    per_token: float
    per_pair: float

    def __call__(self, rows: Sequence[Example]) -> float:
        width = max(row.num_inputs for row in rows)
        return len(rows) * width * (self.per_token + width * self.per_pair)


def plan_passes(
    examples: Iterable[Example],
    max_rows: int,
    max_tokens: int | None,
    trees: bool = True,
    cost: PassCost | None = None,
) -> list[list[Example]]:
    """Distribute the examples of a step over forward passes of at most ``max_rows`` rows. A tree of more than
    ``max_tokens`` (per pass, with padding), or any without ``trees``, becomes a row for each sequence; a single
    sequence is never cut. Single sequences keep their order; where there is a tree, rows of similar size come
    together. With ``trees`` and a ``cost`` each pass is packed."""
    rows: list[Example] = []
    for example in examples:
        too_large = max_tokens is not None and example.num_inputs > max_tokens
        is_cut = not example.tree.is_chain and (too_large or not trees)
        rows.extend(into_sequences(example) if is_cut else [example])
    if not all(row.tree.is_chain for row in rows):
        rows.sort(key=lambda row: row.num_inputs)
    passes: list[list[Example]] = []
    width = 0
    for row in rows:
        width = max(width, row.num_inputs)
        full = not passes or len(passes[-1]) == max_rows
        if full or (max_tokens is not None and width * (len(passes[-1]) + 1) > max_tokens):
            passes.append([])
            width = row.num_inputs
        passes[-1].append(row)
    return [pack(rows, cost) for rows in passes] if trees and cost else passes


def pack(examples: Sequence[Example], cost: PassCost) -> list[Example]:
    """A pass as fewer and longer rows, each several examples merged, where that costs least. Longer rows have no
    padding and compute what prompts share once, but attention takes the square of a row's length."""
    largest_first, packings, number = sorted(examples, key=lambda example: -example.num_inputs), [list(examples)], 1
    while number < len(examples):
        groups: list[list[Example]] = [[] for _ in range(number)]
        for example in largest_first:
            # To where least is, so that rows are of similar length.
            min(groups, key=lambda group: sum(each.num_inputs for each in group)).append(example)
        packings.append([merge_examples(group) for group in groups])
        number *= 2
    return min(packings, key=cost)


def share_passes(sizes: Sequence[int], num_shares: int) -> list[list[int]]:
    """Deal forward passes out to processes: ascending places in ``sizes`` of each share. Numbers of passes differ by at
    most one, and total sizes by at most the largest pass."""
    largest_first = sorted(range(len(sizes)), key=lambda index: -sizes[index])
    return [sorted(largest_first[share::num_shares]) for share in range(num_shares)]


def merge_examples(examples: Sequence[Example]) -> Example:
    """The examples as one, behind what all their prompts begin with: what several prompts begin with is there once."""
    first, last = (each([example.prompt_ids for example in examples], key=list) for each in (min, max))
    # What the first and the last in order begin with, all between them do.
    shared = sum(takewhile(bool, (a == b for a, b in zip(first, last, strict=False))))
    prompts, nodes_of = merge_sequences([example.prompt_ids[shared:] for example in examples])
    tokens, parents, nodes, size = [prompts.tokens], [prompts.parents], [], len(prompts)
    for example, own in zip(examples, nodes_of, strict=True):
        # Where each of its nodes is now; the last entry is ROOT's.
        place = np.append(np.arange(size, size + len(example.tree)), own[-1] if len(own) else ROOT)
        tokens.append(example.tree.tokens)
        parents.append(place[example.tree.parents])
        nodes.append(place[example.nodes])
        size += len(example.tree)
    weights = np.concatenate([example.weights * example.size for example in examples])
    counts = np.concatenate([np.diff(example.offsets) for example in examples])
    return Example(
        prompt_ids=examples[0].prompt_ids[:shared],
        tree=TokenTree(np.concatenate(tokens).astype(np.int32), np.concatenate(parents).astype(np.int32)),
        nodes=np.concatenate(nodes),
        weights=weights / weights.sum(),
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        token_ids=np.concatenate([example.token_ids for example in examples]),
        probabilities=np.concatenate([example.probabilities for example in examples]),
        sequences=sum(example.sequences for example in examples),
        size=sum(example.size for example in examples),
    )


def into_sequences(example: Example) -> list[Example]:
    """One example per sequence of the tree; what several sequences share is supervised in the first of them."""
    order = depth_first_order(example.tree)
    is_leaf = np.ones(len(order), dtype=bool)
    is_leaf[example.tree.parents[example.tree.parents != ROOT]] = False
    stops = np.flatnonzero(is_leaf[order]) + 1
    starts = [0, *stops[:-1].tolist()]
    part_of_node = np.zeros(len(order) + 1, dtype=np.int64)  # the last entry is ROOT's
    part_of_node[order] = np.searchsorted(starts, np.arange(len(order)), side="right") - 1
    part_of_target, counts = part_of_node[example.nodes], np.diff(example.offsets)
    parts = []
    for part, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        _, index, tree = subtree(example.tree, order[start:stop])
        supervised = part_of_target == part
        kept = np.repeat(supervised, counts)
        parts.append(
            replace(
                example,
                tree=tree,
                nodes=index[example.nodes[supervised]],
                weights=example.weights[supervised],
                offsets=np.concatenate([[0], np.cumsum(counts[supervised])]),
                token_ids=example.token_ids[kept],
                probabilities=example.probabilities[kept],
            )
        )
    return parts


def subtree(tree: TokenTree, run: np.ndarray) -> tuple[np.ndarray, np.ndarray, TokenTree]:
    """The tree of a run of nodes in depth-first order and the ancestors of its first: its nodes int64[n], ancestors
    first; the new index of each old node, int64[N + 1], ROOT for ROOT and for what is left out; and the tree."""
    above, node = [], int(tree.parents[run[0]])
    while node != ROOT:
        above.append(node)
        node = int(tree.parents[node])
    nodes = np.concatenate([np.array(above[::-1], dtype=np.int64), run])
    index = np.full(len(tree) + 1, ROOT, dtype=np.int64)
    index[nodes] = np.arange(len(nodes))
    return nodes, index, TokenTree(tree.tokens[nodes], index[tree.parents[nodes]].astype(np.int32))


def depth_first_order(tree: TokenTree) -> np.ndarray:
    """Nodes such that each is followed by its whole subtree, int64[N]; children in order of their index."""
    size = len(tree)
    # In the graph ROOT is 0, and node n is n + 1.
    edges = np.ones(size), (tree.parents + 1, np.arange(1, size + 1))
    graph = csr_array(edges, shape=(size + 1, size + 1))
    return csgraph.depth_first_order(graph, 0, return_predecessors=False)[1:].astype(np.int64) - 1
