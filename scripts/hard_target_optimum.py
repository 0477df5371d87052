"""How far the optimum of each hard-target loss lies from its target, by family: the table of docs/methods.md.

Run from the root of the repository: ``python -m scripts.hard_target_optimum``. Strings have one token per character
and a terminator, as with tokenizers that split numbers into digits.
"""

import argparse

import numpy as np
import pandas as pd

from pipeline.axes.structured.wasserstein import interquantile_width
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import build_split


def completion_mean_optimum(probabilities: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The optimum of Eq. 4, a mean over each string's tokens: proportional to P(y) / |y|, so that short strings gain.

    ``probabilities`` are float64[M], the target P; ``lengths`` int64[M] tokens, terminators included. Of a loss
    sum_y P(y) c(y) sum_i -log p(t_i | t_<i), the optimum at a prefix s gives token t the share W(st) / W(s) with
    W(s) = sum_{y through s} P(y) c(y); along y that telescopes to the law proportional to P(y) c(y).
    """
    mass = probabilities / lengths
    return mass / mass.sum()


def token_mean_optimum(probabilities: np.ndarray, lengths: np.ndarray, batch_size: int) -> np.ndarray:
    """Of Algorithm 2, line 14, one mean over the tokens of a batch: proportional to P(y) E[1 / (|y| + S)].

    S is the number of tokens of the other ``batch_size`` - 1 strings, here of the same law. With one string this is
    ``completion_mean_optimum``, and the tilt falls as 1 / ``batch_size``.
    """
    of_length = np.bincount(lengths, weights=probabilities)
    others = np.array([1.0])
    for _ in range(batch_size - 1):
        others = np.convolve(others, of_length)
    totals = lengths[:, None] + np.arange(len(others))
    mass = probabilities * (others / totals).sum(axis=1)
    return mass / mass.sum()


def optimum_table(num_decimals: int, max_bins: int, batch_sizes: tuple[int, ...]) -> pd.DataFrame:
    """Normalised W1 between the discretised target and each optimum.

    Args:
        num_decimals: Decimals of the canonical strings.
        max_bins: Largest output space.
        batch_sizes: Strings that share one mean over tokens.

    Returns:
        One row per selected prompt: prompt, split, family, "completion" (Eq. 4), and "token, N" for each batch size.
    """
    rows = []
    for split in ("unseen", "ood"):
        for prompt in build_split(split, selection="selected"):
            space = discretize(prompt.law, num_decimals=num_decimals, max_bins=max_bins)
            texts, target = list(space.values), space.probabilities
            lengths, values = np.array([len(text) + 1 for text in texts]), np.array([float(text) for text in texts])
            width = interquantile_width(prompt.law)
            if not width > 0:
                continue
            optima = {"completion": completion_mean_optimum(target, lengths)} | {
                f"token, {size}": token_mean_optimum(target, lengths, size) for size in batch_sizes
            }
            distances = {
                name: float((np.abs(np.cumsum(law - target))[:-1] * np.diff(values)).sum() / width)
                for name, law in optima.items()
            }
            rows.append({"prompt": prompt.prompt_id, "split": split, "family": prompt.family, **distances})
    return pd.DataFrame(rows)


def main() -> None:
    """Print the table by family, the largest distances first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-decimals", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--max-bins", type=int, default=16384, help="default: %(default)s")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[8, 32], help="default: %(default)s")
    arguments = parser.parse_args()
    table = optimum_table(arguments.num_decimals, arguments.max_bins, tuple(arguments.batch_sizes))
    columns = table.columns[3:]
    for split, part in table.groupby("split"):
        print(f"{split}: medians over families\n{part.groupby('family')[list(columns)].mean().median().to_string()}\n")
    by_family = table.groupby("family")[list(columns)].mean().sort_values("completion", ascending=False)
    print(by_family.round(4).to_markdown())


if __name__ == "__main__":
    main()
