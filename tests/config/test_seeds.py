"""Seeds of training and sampling follow the seed unless they are set; which of them tell runs apart."""

import pytest

from pipeline.config.seeds import SEEDS, varied_seeds
from tests.composition import composed_params


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], (0, 0, 0)),
        (["seed=3"], (3, 3, 3)),
        (["seed=3", "train_seed=5"], (3, 5, 3)),
        (["sampling_seed=7"], (0, 0, 7)),
    ],
)
def test_seeds_follow_the_first(overrides, expected):
    values = composed_params(*overrides)
    assert tuple(values[key] for key in SEEDS) == expected


@pytest.mark.parametrize(
    ("seeds", "varied"),
    [
        ([(0, 0, 0)], SEEDS),
        ([(0, 0, 0), (1, 1, 1), (1, 1, 1)], SEEDS),
        ([(0, 0, 0), (0, 1, 0)], ("train_seed",)),
        ([(0, 0, 5), (0, 0, 6)], ("sampling_seed",)),
        # The seed alone does not tell the first two apart.
        ([(0, 0, 0), (0, 1, 1), (1, 2, 1)], ("train_seed", "seed", "sampling_seed")),
    ],
)
def test_the_first_of_the_varied_seeds_tells_runs_apart(seeds, varied):
    assert varied_seeds([dict(zip(SEEDS, values, strict=True)) for values in seeds]) == varied


def test_crossed_seeds_are_refused():
    runs = [{"seed": 0, "train_seed": train, "sampling_seed": sample} for train in (0, 1) for sample in (0, 1)]
    with pytest.raises(ValueError, match="train_seed and sampling_seed are crossed"):
        varied_seeds(runs)
