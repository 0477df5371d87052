"""Negative log-likelihood of every PALOMA document under a model, with and without the model's BOS token.

Documents are read and scored in chunks, and each chunk's figures go into a journal as soon as they
are there: a killed run continues behind the last chunk, and a file that was scored is not scored again
because another one has changed. A model without a BOS token reads the same tokens in both variants,
which are then scored once, as the default variant.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.journal import Journal
from pipeline.artifacts.scores import DOCUMENT_SCORE_COLUMNS
from pipeline.artifacts.storage import sha256_json
from pipeline.config.conditions import adapter_directory
from pipeline.config.retention import PalomaConfig, is_local_path
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.record.progress_bar import LoggedBar
from pipeline.sources.paloma_documents import DocumentFile, document_chunks, fetch_slices, find_documents
from pipeline.sources.repository import pinned_commit

PROBE = "Generate exactly ONE random number. Output ONLY the number."
"""A request on which an adapter must show."""
WHICH_FILES = ("source", "revision", "split", "slices", "bos", "max_documents_per_slice")
"""Settings that say which documents are scored, and none that say how."""
CHUNK_BYTES_PER_TOKEN = 64
"""Text read at a time, in bytes by token of a forward pass: some sixteen passes, enough to sort windows by length."""


def open_source(settings: PalomaConfig) -> tuple[Path, str | None]:
    """Directory of the slices, and the commit of the hub's data set. Raises ArtifactError."""
    if is_local_path(settings.source):
        return Path(settings.source), None
    revision = pinned_commit(settings.source, settings.revision, "dataset")
    return fetch_slices(settings.source, revision, settings.slices, settings.split), revision


def scored_file(
    scorer: Any, file: DocumentFile, variant: str, bos: int | None, journals: Path, progress: LoggedBar
) -> Iterator[tuple]:
    """Rows of one file's documents: those in its journal, then new ones, which go into it chunk by chunk."""
    content = sha256_json([variant, file.sha256, file.num_documents])[:16]
    journal = Journal(journals / f"{file.slice_name}-{content}.jsonl")
    number = 0

    def numbered(scores: list[dict], count: Callable[[int], Any]) -> Iterator[tuple]:
        for place, score in enumerate(scores, start=number):
            yield (variant, file.slice_name, file.path.name, place, *score.values(), bos is not None)
        count(sum(score["num_bytes"] for score in scores))

    for row in journal.rows():
        yield from numbered(row["documents"], progress.restored)
        number += len(row["documents"])
    for texts in document_chunks(file, number, CHUNK_BYTES_PER_TOKEN * scorer.tokens_per_pass):
        scores = [asdict(score) for score in scorer.score(texts, bos)]
        # One line for a chunk: a kill in the middle of the line loses all of it, so that chunks stay what they were.
        journal.append([{"documents": scores}])
        yield from numbered(scores, progress.update)
        number += len(scores)


def bos_variants(wanted: Sequence[str], bos: int | None) -> dict[str, int | None]:
    """The BOS token of each variant to score; the default alone for a model that has none."""
    if bos is None:
        return {"model": None}
    return {variant: bos if variant == "model" else None for variant in wanted}


def main(run: StageRun, model: str, condition: str, model_report: Path, weights: Path, output: Path) -> None:
    """Write the table of scores."""
    from pipeline.engines.loading.chat import text_bos
    from pipeline.engines.scoring.perplexity import PerplexityScorer

    settings = run.params.paloma
    root, revision = open_source(settings)
    files = find_documents(root, settings.slices, settings.split, settings.max_documents_per_slice)
    read = {f"{file.slice_name}/{file.path.name}": [file.num_documents, file.sha256] for file in files}
    run.record.add(documents=read, revision=revision)
    opened = open_model(run.params.models[model], model_report, adapter_directory(condition, weights), PROBE)
    scorer = PerplexityScorer(
        opened.model,
        opened.tokenizer,
        window=settings.window,
        stride=settings.stride,
        tokens_per_pass=settings.tokens_per_pass,
    )
    variants = bos_variants(settings.bos, text_bos(opened.tokenizer))
    total = sum(file.num_bytes for file in files) * len(variants)
    # The journal of a file is named by its content: which other files there are does not matter.
    with run.scratch(regardless_of=[f"paloma.{name}" for name in WHICH_FILES]) as scratch:
        with run.tracked() as tracking:
            progress = tracking.bar(desc=run.title, unit="B", unit_scale=True, total=total)
            rows = [
                row
                for variant, bos in variants.items()
                for file in files
                for row in scored_file(scorer, file, variant, bos, scratch, progress)
            ]
        run.write_table(output, pd.DataFrame(rows, columns=list(DOCUMENT_SCORE_COLUMNS)))
        run.write_record(num_documents=sum(file.num_documents for file in files), variants=list(variants))


if __name__ == "__main__":
    command_line()
