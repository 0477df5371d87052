"""Perplexity and bits per byte by PALOMA slice and in total, and whether they are those of base; no model is loaded.

The metrics of the BOS-less variant have the suffix ``_without_bos``; they are left out for a model without a BOS
token, whose default variant is that one.
"""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.scores import DOCUMENT_SCORE_COLUMNS
from pipeline.artifacts.storage import read_table
from pipeline.axes.paloma.perplexity import SUFFIXES, comparison_rows, metric_rows, slice_rows
from pipeline.core.statistics.paired_tests import TEST_COLUMNS
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError
from pipeline.stages.evaluation_output import write_evaluation

KEY = ["bos", "slice", "file", "document"]


def paired_documents(scores: Path, base_scores: Path) -> pd.DataFrame:
    """Scores with the base checkpoint's NLL of the same documents as ``base_nll_nats``.

    Raises:
        ArtifactError: The tables do not hold the same documents, or tokens or bytes of one differ.
    """
    own, base = (read_table(path, DOCUMENT_SCORE_COLUMNS) for path in (scores, base_scores))
    joined = own.merge(base, on=KEY, how="outer", suffixes=("", "_base"), indicator=True, validate="one_to_one")
    # NaN on one side differs, so documents that only one table has are found here, too.
    differs = (joined["num_tokens"] != joined["num_tokens_base"]) | (joined["num_bytes"] != joined["num_bytes_base"])
    if differs.any():
        row = joined[differs].iloc[0]
        raise ArtifactError(
            f"{scores} and {base_scores} do not score the same tokens: document {row['document']} of "
            f"{row['slice']}/{row['file']}, variant {row['bos']!r}, is not in both, or not with the same tokens and "
            "bytes; run score_paloma for both again"
        )
    # The merge sorts by key; slices are to stay in the order in which they were scored.
    return own.merge(base[[*KEY, "nll_nats"]].rename(columns={"nll_nats": "base_nll_nats"}), on=KEY)


def main(run: StageRun, model: str, condition: str, scores: Path, base_scores: Path, output: Path) -> None:
    """Write an evaluation directory; its table ``tests`` says what changed against base, and is empty for base."""
    seed, replicates, margins = run.params.seed, run.params.evaluate.bootstrap_replicates, run.params.tests
    compared = condition != "base"
    names = {"axis": "paloma", "model": model, "condition": condition}
    documents = paired_documents(scores, base_scores)
    metrics, tests, slices = [], [], []
    for variant in (name for name in SUFFIXES if (documents["bos"] == name).any()):
        chosen = documents[documents["bos"] == variant]
        draws = {"variant": variant, "seed": seed, "names": list(names.values())}
        rows = metric_rows(chosen, compared=compared, replicates=replicates, **draws)
        metrics.extend(rows)
        with_bos = bool(chosen["starts_with_bos"].any())
        slices.extend({**row, "starts_with_bos": with_bos} for row in slice_rows(chosen, variant, compared))
        if compared:
            tests.extend(
                comparison_rows(
                    chosen,
                    rows,
                    margin=margins.bits_per_byte_margin,
                    significance=margins.significance,
                    **draws,
                )
            )
    unscored = {
        row["split"]: {"document without a scored token": row["num_unscored"]} for row in slices if row["num_unscored"]
    }
    write_evaluation(
        run,
        output,
        metrics=[{**names, **row} for row in metrics],
        failures=unscored,
        per_prompt=pd.DataFrame(slices),
        tables={"tests": pd.DataFrame(tests, columns=list(TEST_COLUMNS))},
    )


if __name__ == "__main__":
    command_line()
