"""Token trees as examples: weights, merging, cutting, and the masks of a batch."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.training.batches import PassCost, collate, depth_first_order, pack, plan_passes, share_passes
from pipeline.core.training.examples import hard_example, soft_example
from pipeline.core.tries.token_tree import ROOT, merge_sequences
from pipeline.core.tries.trie import build_trie

PROMPT = [20, 21, 22]
END = 9


def random_trie(seed):
    rng = np.random.default_rng(seed)
    strings = sorted({tuple(rng.integers(1, 6, size=rng.integers(1, 7)).tolist()) for _ in range(40)})
    return build_trie(strings, rng.dirichlet(np.ones(len(strings))), END)


def test_a_terminator_alone_is_a_completion():
    example = hard_example(PROMPT, [[END], [END]])
    assert len(example.tree) == 0 and example.nodes.tolist() == [ROOT] and example.longest == 4
    batch = collate([example, hard_example([1], [[END]])], 0)
    assert batch.allowed is None and batch.columns.tolist() == [2, 0]


def test_prefixes_weigh_by_their_mass_or_by_each_path():
    trie, number = random_trie(3), 20_000
    for reduction in ("token", "completion"):
        example = soft_example(PROMPT, trie, np.random.default_rng(0), number, reduction)
        expected, reached = {}, [((), 1.0)]
        while reached:
            prefix, mass = reached.pop()
            expected[prefix] = mass
            tokens, probabilities = trie.next_tokens(prefix)
            for token, probability in zip(tokens.tolist(), probabilities.tolist(), strict=True):
                if token != END:
                    reached.append(((*prefix, token), mass * probability))
        weights = {
            () if node == ROOT else tuple(example.tree.path(node)): weight * example.size
            for node, weight in zip(example.nodes.tolist(), example.weights.tolist(), strict=True)
        }
        if reduction == "token":
            found = {prefix: weight / number for prefix, weight in weights.items()}
            assert all(abs(found.get(p, 0) - m) < 5 * (m / number) ** 0.5 for p, m in expected.items())
        else:
            # A root weighs 1 / (L + 1) of each path, so less than a half where paths have a token at least.
            assert sum(weights.values()) == pytest.approx(1) and weights[()] < 0.5


def test_mask_of_a_tree():
    example = hard_example([11, 12], [[1, 2, END], [1, 3, END]])
    batch = collate([example, hard_example([13], [[4, END]])], pad_id=0)
    assert batch.input_ids.tolist() == [[11, 12, 1, 2, 3], [13, 4, 0, 0, 0]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 3, 3], [0, 1, 0, 0, 0]]
    assert batch.allowed[:, 0].int().tolist() == [
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 0, 1]],
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]],
    ]
    assert (batch.rows.tolist(), batch.columns.tolist()) == ([0, 0, 0, 0, 1, 1], [1, 2, 3, 4, 0, 1])


def test_depth_first_order():
    tree, _ = merge_sequences([[1, 2, 3], [4, 5], [1, 6], [4, 7, 8], [1, 2, 9]])
    paths = [tree.path(node) for node in depth_first_order(tree).tolist()]
    for before, after in pairwise(paths):
        # Down to a child, or to a sibling of the last node or of one of its ancestors.
        assert after[:-1] == before[: len(after) - 1]
    assert len({tuple(path) for path in paths}) == len(tree)


def test_passes_stay_within_their_limits():
    examples = [soft_example(PROMPT, random_trie(7), np.random.default_rng(i), 2 + 5 * i) for i in range(5)]
    examples += [soft_example(PROMPT, random_trie(7), np.random.default_rng(i)) for i in range(4)]
    for rows, tokens in ((3, None), (1, None), (4, 60), (8, 12)):
        passes = plan_passes(examples, rows, tokens)
        assert max(map(len, passes)) <= rows
        if tokens is not None:
            assert max(collate(members, 0).input_ids.numel() for members in passes) <= tokens
        parts = [part for members in passes for part in members]
        assert sum(part.weights.sum() for part in parts) == pytest.approx(sum(each.weights.sum() for each in examples))


def test_single_sequences_keep_their_order():
    examples = [hard_example(PROMPT, [[1] * length + [END]]) for length in (3, 1, 5, 2, 4)]
    assert plan_passes(examples, 2, None) == [examples[:2], examples[2:4], examples[4:]]
    assert plan_passes(examples, 5, 16) == [examples[:2], examples[2:4], examples[4:]]
    assert plan_passes(examples, 5, 5) == [[example] for example in examples]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.integers(1, 9))
def test_shares_are_even_and_complete(sizes, num_shares):
    shares = share_passes(sizes, num_shares)
    assert sorted(index for share in shares for index in share) == list(range(len(sizes)))
    assert all(share == sorted(share) for share in shares)
    counts, totals = [len(share) for share in shares], [sum(sizes[index] for index in share) for share in shares]
    assert len(shares) == num_shares and max(counts) - min(counts) <= 1
    assert max(totals) - min(totals) <= max(sizes)


def test_packed_examples_have_the_sequences_targets_and_weights_of_each():
    prompts = [[1, 2, 3], [1, 2, 4, 5], [1, 2], [1, 2, 3]]
    examples = [soft_example(ids, random_trie(7), np.random.default_rng(i), 3) for i, ids in enumerate(prompts)]
    examples.append(hard_example([1, 2, 3], [[9, 9, END], [8, END]], "token"))

    def supervised(example):
        paths = [(*example.prompt_ids, *example.tree.path(node)) for node in example.nodes.tolist()]
        laws = [
            tuple(zip(example.token_ids[a:b].tolist(), example.probabilities[a:b].tolist(), strict=True))
            for a, b in pairwise(example.offsets.tolist())
        ]
        weights = np.round(example.weights * example.size, 12).tolist()
        return Counter(zip(paths, laws, weights, strict=True))

    (packed,) = pack(examples, PassCost(1.0, 0.0))
    assert supervised(packed) == sum(map(supervised, examples), Counter())
    assert (packed.prompt_ids, packed.sequences) == ([1, 2], 14) and packed.size == sum(e.size for e in examples)
    # The tree of the prompts, [3] and [4, 5] behind [1, 2], and every completion.
    assert len(packed.tree) == 3 + sum(len(example.tree) for example in examples)
    apart = [hard_example([first, 2, 3], [[4, END]]) for first in range(4)]
    assert all(kept is given for kept, given in zip(pack(apart, PassCost(0.0, 1.0)), apart, strict=True))
