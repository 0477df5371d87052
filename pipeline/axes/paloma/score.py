"""Negative log-likelihood of every PALOMA document, with and without the model's BOS token (once, as the default
variant, for a model without one). A killed run continues behind the last chunk of documents."""

import itertools
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from pipeline.artifacts.model_report import model_revision
from pipeline.artifacts.scores import DOCUMENT_SCORE_COLUMNS
from pipeline.config.conditions import adapter_directory
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.sources.paloma_documents import DocumentFile, document_chunks, find_documents, open_source
from pipeline.stages.resumable import resumable

PROBE = "Generate exactly ONE random number. Output ONLY the number."
"""A request on which an adapter must show."""
CHUNK_BYTES_PER_TOKEN = 64
"""Text read at a time, in bytes by token of a forward pass: some sixteen passes, enough to sort windows by length."""


def main(run: StageRun, model: str, condition: str, model_report: Path, weights: Path, output: Path) -> None:
    from pipeline.engines.loading.chat import text_bos
    from pipeline.engines.loading.model import load_tokenizer

    settings, config = run.params.paloma, run.params.models[model]
    root, revision = open_source(settings)
    files = find_documents(root, settings.slices, settings.split, settings.max_documents_per_slice)
    read = {f"{file.slice_name}/{file.path.name}": [file.num_documents, file.sha256] for file in files}
    run.record.add(documents=read, revision=revision)
    bos = text_bos(load_tokenizer(config, model_revision(model_report)))
    # Without a BOS token both variants are the same.
    variants = {name: bos if name == "model" else None for name in (settings.bos if bos is not None else ["model"])}
    documents = {
        f"{variant} {file.slice_name}/{file.path.name} {place}": (variant, file, place)
        for variant in variants
        for file in files
        for place in range(file.num_documents)
    }

    def scores(missing: dict[str, tuple[str, DocumentFile, int]]) -> Iterator[dict[str, dict]]:
        from pipeline.engines.scoring.perplexity import PerplexityScorer

        opened = open_model(config, model_report, adapter_directory(condition, weights), PROBE)
        passes = {"window": settings.window, "stride": settings.stride, "tokens_per_pass": settings.tokens_per_pass}
        scorer = PerplexityScorer(opened.model, opened.tokenizer, **passes)
        for (variant, file), members in itertools.groupby(missing.items(), key=lambda item: item[1][:2]):
            keys = {place: key for key, (_, _, place) in members}
            number, end = min(keys), max(keys) + 1
            for texts in document_chunks(file, number, end, CHUNK_BYTES_PER_TOKEN * scorer.tokens_per_pass):
                batch = enumerate(map(asdict, scorer.score(texts, variants[variant])), start=number)
                yield {keys[place]: score for place, score in batch if place in keys}
                number += len(texts)

    total = sum(file.num_bytes for file in files) * len(variants)
    with resumable(run, "B", total, size=lambda score: score["num_bytes"], unit_scale=True) as done:
        rows = [
            (variant, file.slice_name, file.path.name, place, *score.values(), variants[variant] is not None)
            for (variant, file, place), score in zip(documents.values(), done(documents, scores), strict=True)
        ]
        run.write_table(output, pd.DataFrame(rows, columns=list(DOCUMENT_SCORE_COLUMNS)))
        run.write_record(num_documents=sum(file.num_documents for file in files), variants=list(variants))


if __name__ == "__main__":
    command_line()
