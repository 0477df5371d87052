"""Perplexity and bits per byte by PALOMA slice and in total, and whether they are those of base; no model is loaded.

The metrics of the BOS-less variant have the suffix ``_without_bos``; they are left out for a model without a BOS
token, whose default variant is that one.
"""

import math
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.scores import DOCUMENT_SCORE_COLUMNS
from pipeline.artifacts.storage import read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.paloma.perplexity import ALL, SUFFIXES, comparison_table, statistics
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError

KEY = ["bos", "slice", "file", "document"]


def change_from_base(own: pd.DataFrame, base: pd.DataFrame, paths: str) -> pd.Series:
    """NLL of each document less the base checkpoint's. Raises ArtifactError where their tokens or bytes differ."""
    same = [*KEY, "num_tokens", "num_bytes"]
    joined = own[same].merge(base[same], how="outer", indicator=True, validate="one_to_one")
    alone = joined[joined["_merge"] != "both"]
    if len(alone):
        row = alone.iloc[0]
        raise ArtifactError(
            f"{paths} do not score the same tokens: document {row['document']} of "
            f"{row['slice']}/{row['file']}, variant {row['bos']!r}, is not in both, or not with the same tokens and "
            "bytes; run score_paloma for both again"
        )
    # The outer merge sorts by key; slices are to stay in the order in which they were scored.
    return own["nll_nats"] - own[KEY].merge(base, on=KEY)["nll_nats"].to_numpy()


def read_documents(evaluation: ModelEvaluation, scores: Path) -> pd.DataFrame:
    """Scores of every condition's documents with ``condition``, ``name`` and ``change_nats``."""
    paths = dict(evaluation.paths(scores))
    tables = {condition: read_table(path, DOCUMENT_SCORE_COLUMNS) for condition, path in paths.items()}
    for condition, table in tables.items():
        change: pd.Series | float = math.nan
        if condition != "base" and "base" in tables:
            change = change_from_base(table, tables["base"], f"{paths[condition]} and {paths['base']}")
        tables[condition] = table.assign(condition=condition, change_nats=change)
    documents = pd.concat(tables.values(), ignore_index=True)
    return documents.assign(name=documents[["slice", "file", "document"]].astype(str).agg("/".join, axis=1))


def main(run: StageRun, model: str, scores: Path, output: Path) -> None:
    """Write an evaluation; its table ``tests`` says what changed against base, and is empty for base."""
    evaluation, margins = ModelEvaluation(run, "paloma", model), run.params.tests
    documents = read_documents(evaluation, scores)
    for variant in (name for name in SUFFIXES if (documents["bos"] == name).any()):
        chosen = documents[documents["bos"] == variant]
        changes: dict[str, list[dict[str, Any]]] = {condition: [] for condition in evaluation.conditions}
        for split, rows in [*chosen.groupby("slice", sort=False), (ALL, chosen)]:
            options = {"split": split, "unit": "name", "strata": "slice"}
            evaluation.summarise(rows, statistics(variant, against_base=False), **options)
            compared = rows[rows["change_nats"].notna()]
            for row in evaluation.summarise(compared, statistics(variant, against_base=True), **options):
                changes[row["condition"]].append(row)
        for condition, own in chosen.groupby("condition", sort=False):
            sums = own.groupby("slice", sort=False)[["nll_nats", "num_tokens", "num_bytes"]].sum()
            sums = sums.rename_axis("split").reset_index()
            evaluation.add_table(condition, "per_prompt", sums.assign(bos=variant))
            unscored = own.loc[own["num_tokens"] == 0, "slice"].value_counts()
            evaluation.failures[condition] |= {
                name: {"document without a scored token": int(count)} for name, count in unscored.items()
            }
            tests = comparison_table(
                own,
                changes[condition],
                variant=variant,
                seed=run.params.seed,
                names=("paloma", model, condition),
                margin=margins.bits_per_byte_margin,
                significance=margins.significance,
            )
            evaluation.add_table(condition, "tests", tests)
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
