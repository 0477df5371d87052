"""The roots of random streams, and which of them tell runs apart."""

from collections.abc import Mapping, Sequence

SEEDS = ("seed", "train_seed", "sampling_seed")  # keys of params.yaml; the others follow the first unless they are set
SEED_TITLES = {"seed": "Training seed", "train_seed": "Training seed", "sampling_seed": "Sampling seed"}
"""What tables call the seed that tells their runs apart."""


def varied_seeds(runs: Sequence[Mapping[str, int]]) -> tuple[str, ...]:
    """The keys of SEEDS that differ between runs, one that tells all apart first. Raises ValueError where crossed."""
    distinct = {tuple(run[key] for key in SEEDS) for run in runs}
    counts = {key: len({run[key] for run in runs}) for key in SEEDS}
    different = [key for key in SEEDS if counts[key] > 1]
    if not different:
        return SEEDS
    first = next((key for key in different if counts[key] == len(distinct)), None)
    if first is None:
        raise ValueError(f"{' and '.join(different)} are crossed, and runs that share a seed are not independent")
    return (first, *(key for key in different if key != first))
