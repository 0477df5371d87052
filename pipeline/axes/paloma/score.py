"""Negative log-likelihood of every PALOMA document, with and without the model's BOS token (once, as the default
variant, for a model without one). A killed run continues behind the last chunk of documents."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.scores import DOCUMENT_SCORE_COLUMNS
from pipeline.config.conditions import adapter_directory
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.sources.paloma_documents import DocumentFile, document_chunks, find_documents, open_source
from pipeline.stages.resumable import ResumableMap, resumable

PROBE = "Generate exactly ONE random number. Output ONLY the number."
"""A request on which an adapter must show."""
CHUNK_BYTES_PER_TOKEN = 64
"""Text read at a time, in bytes by token of a forward pass: some sixteen passes, enough to sort windows by length."""


def scored_file(done: ResumableMap, scorer: Any, file: DocumentFile, variant: str, bos: int | None) -> Iterator[tuple]:
    """Rows of one file's documents."""
    names = {f"{variant} {file.slice_name}/{file.path.name} {place}": place for place in range(file.num_documents)}
    keys = list(names)

    def scores(missing: dict[str, int]) -> Iterator[dict[str, dict]]:
        number = min(missing.values())
        for texts in document_chunks(file, number, CHUNK_BYTES_PER_TOKEN * scorer.tokens_per_pass):
            batch = map(asdict, scorer.score(texts, bos))
            yield dict(zip(keys[number : number + len(texts)], batch, strict=True))
            number += len(texts)

    for place, score in enumerate(done(names, scores)):
        yield (variant, file.slice_name, file.path.name, place, *score.values(), bos is not None)


def main(run: StageRun, model: str, condition: str, model_report: Path, weights: Path, output: Path) -> None:
    from pipeline.engines.loading.chat import text_bos
    from pipeline.engines.scoring.perplexity import PerplexityScorer

    settings = run.params.paloma
    root, revision = open_source(settings)
    files = find_documents(root, settings.slices, settings.split, settings.max_documents_per_slice)
    read = {f"{file.slice_name}/{file.path.name}": [file.num_documents, file.sha256] for file in files}
    run.record.add(documents=read, revision=revision)
    opened = open_model(run.params.models[model], model_report, adapter_directory(condition, weights), PROBE)
    passes = {"window": settings.window, "stride": settings.stride, "tokens_per_pass": settings.tokens_per_pass}
    scorer = PerplexityScorer(opened.model, opened.tokenizer, **passes)
    bos = text_bos(opened.tokenizer)
    # Without a BOS token both variants are the same.
    variants = {name: bos if name == "model" else None for name in (settings.bos if bos is not None else ["model"])}
    total = sum(file.num_bytes for file in files) * len(variants)
    with resumable(run, "B", total, size=lambda score: score["num_bytes"], unit_scale=True) as done:
        scored = [
            scored_file(done, scorer, file, variant, token) for variant, token in variants.items() for file in files
        ]
        table = pd.DataFrame([row for rows in scored for row in rows], columns=list(DOCUMENT_SCORE_COLUMNS))
        run.write_table(output, table)
        run.write_record(num_documents=sum(file.num_documents for file in files), variants=list(variants))


if __name__ == "__main__":
    command_line()
