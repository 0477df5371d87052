"""What the hard-target losses ask for, against the targets of examples and against sampling."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.training.examples import hard_example
from scripts.hard_target_optimum import completion_mean_optimum

END = 9
completions = st.lists(
    st.lists(st.integers(1, 3), max_size=4).map(lambda tokens: (*tokens, END)), min_size=1, max_size=12
)


def asked_for(example) -> dict[tuple[int, ...], float]:
    """The law that has an example's target at every prefix, by string."""
    paths = {-1: ()}
    for node, parent in enumerate(example.tree.parents.tolist()):
        paths[node] = (*paths[parent], int(example.tree.tokens[node]))
    mass = {(): 1.0}
    for position, node in enumerate(example.nodes.tolist()):
        span = slice(*example.offsets[position : position + 2])
        for token, share in zip(example.token_ids[span], example.probabilities[span], strict=True):
            mass[(*paths[node], int(token))] = mass[paths[node]] * share
    return {path: value for path, value in mass.items() if path and path[-1] == END}


@given(completions)
def test_targets_of_an_example_are_the_optimum_of_its_reduction(drawn):
    counts = Counter(drawn)
    strings = list(counts)
    target = np.array([counts[string] for string in strings]) / len(drawn)
    lengths = np.array([len(string) for string in strings])
    found = asked_for(hard_example([0], drawn, "completion"))
    np.testing.assert_allclose([found[s] for s in strings], completion_mean_optimum(target, lengths), atol=1e-12)
    # One mean over all tokens: the target itself.
    found = asked_for(hard_example([0], drawn, "token"))
    np.testing.assert_allclose([found[s] for s in strings], target, atol=1e-12)
