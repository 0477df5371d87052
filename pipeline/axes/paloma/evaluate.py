"""Perplexity and bits per byte by PALOMA slice and in total, as ratios of sums over documents, the units of every
interval (Appendix D.8). Metrics of the BOS-less variant have the suffix ``_without_bos``."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.scores import DOCUMENT_SCORE_COLUMNS
from pipeline.artifacts.storage import read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.paloma.metrics import SUFFIXES
from pipeline.core.statistics.summarise import Statistic
from pipeline.dag.execution import StageRun, command_line


def perplexity(nll_nats: np.ndarray, num_tokens: np.ndarray) -> np.ndarray:
    """exp(NLL / tokens), float64; infinite where that overflows, NaN without tokens. Compares within a tokenizer."""
    with np.errstate(over="ignore"):
        return np.exp(np.divide(nll_nats, np.where(np.asarray(num_tokens) > 0, num_tokens, np.nan)))


def bits_per_byte(nll_nats: np.ndarray, num_bytes: np.ndarray) -> np.ndarray:
    """NLL / (ln 2 * bytes), float64; NaN without bytes. Without a BOS token the first token's bytes count and its loss
    does not, as in the paper."""
    return np.divide(nll_nats, np.where(np.asarray(num_bytes) > 0, num_bytes, np.nan)) / math.log(2)


def _ratio(function: Callable[..., np.ndarray], size: str) -> Statistic:
    def values(rows: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
        return function(*(weights @ rows[name].to_numpy(np.float64) for name in ("nll_nats", size)))

    return Statistic(("nll_nats", size), values)


STATISTICS = {"perplexity": _ratio(perplexity, "num_tokens"), "bits_per_byte": _ratio(bits_per_byte, "num_bytes")}


def main(run: StageRun, model: str, scores: Path, output: Path) -> None:
    evaluation = ModelEvaluation(run, "paloma", model)
    tables = {condition: read_table(path, DOCUMENT_SCORE_COLUMNS) for condition, path in evaluation.paths(scores)}
    documents = pd.concat([table.assign(condition=condition) for condition, table in tables.items()], ignore_index=True)
    documents["name"] = documents[["slice", "file", "document"]].astype(str).agg("/".join, axis=1)
    for variant in (name for name in SUFFIXES if (documents["bos"] == name).any()):
        chosen = documents[documents["bos"] == variant]
        statistics = {f"{name}{SUFFIXES[variant]}": statistic for name, statistic in STATISTICS.items()}
        for split, rows in [*chosen.groupby("slice", sort=False), ("all", chosen)]:
            evaluation.summarise(rows, statistics, split=split, unit="name", strata="slice")
        for condition, own in chosen.groupby("condition", sort=False):
            sums = own.groupby("slice", sort=False)[["nll_nats", "num_tokens", "num_bytes"]].sum()
            evaluation.add_table(condition, "per_prompt", sums.rename_axis("split").reset_index().assign(bos=variant))
            unscored = own.loc[own["num_tokens"] == 0, "slice"].value_counts()
            evaluation.failures[condition] |= {
                name: {"document without a scored token": int(count)} for name, count in unscored.items()
            }
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
