"""Negative log-likelihood of every PALOMA document under a model, with and without the model's BOS token.

Documents are read and scored in chunks, and each chunk's figures go into ``--partial`` as soon as they
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
from pipeline.artifacts.locks import scratch
from pipeline.artifacts.storage import sha256_json, write_table
from pipeline.command import run_stage
from pipeline.config.evaluation import BASELINES
from pipeline.config.params import load_params
from pipeline.config.retention import PalomaConfig
from pipeline.engines.loading.conditioned_model import adapter_inputs, open_model
from pipeline.errors import ConfigError
from pipeline.record.progress_bar import LoggedBar
from pipeline.record.provenance import StageRecord
from pipeline.record.tracking import stage_run
from pipeline.sources.paloma_documents import DocumentFile, document_chunks, fetch_slices, find_documents
from pipeline.sources.repository import pinned_commit
from pipeline.stages.arguments import add_condition, stage_parser

PALOMA_SCORE_COLUMNS = (
    "bos",
    "slice",
    "file",
    "document",
    "nll_nats",
    "num_tokens",
    "num_bytes",
    "starts_with_bos",
)
"""One row per variant and document; starts_with_bos: whether the model read a BOS token before it."""
PROBE = "Generate exactly ONE random number. Output ONLY the number."
"""A request on which an adapter must show."""
CHUNK_BYTES_PER_TOKEN = 64
"""Text read at a time, in bytes by token of a forward pass: some sixteen passes, enough to sort windows by length."""


def open_source(settings: PalomaConfig, documents: Path | None) -> tuple[Path, str | None]:
    """Directory of the slices, and the commit of the hub's data set. Raises ArtifactError."""
    if documents is not None or settings.is_local:
        return documents or Path(settings.source), None
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


def main(
    params: Path,
    model: str,
    model_report: Path,
    condition: str,
    adapters: Path,
    output: Path,
    partial: Path,
    documents: Path | None = None,
) -> None:
    """Write the table of scores, and provenance beside it."""
    from pipeline.engines.loading.chat import text_bos
    from pipeline.engines.scoring.perplexity import PerplexityScorer

    config = load_params(params)
    settings = config.paloma
    if condition in BASELINES:
        raise ConfigError(f"--condition: {condition!r} is a way to ask the base checkpoint; its perplexity is base's")
    root, revision = open_source(settings, documents)
    files = find_documents(root, settings.slices, settings.split, settings.max_documents_per_slice)
    # How the rows are batched is not part of what is computed.
    scoring = {"window": settings.window, "stride": settings.stride, "probe": PROBE}
    inputs = [model_report, *adapter_inputs(condition, adapters)]
    parameters = {"model": config.model(model), "condition": condition, "scoring": scoring}
    how = StageRecord("score_paloma", parameters, inputs)
    read = {f"{file.slice_name}/{file.path.name}": [file.num_documents, file.sha256] for file in files}
    record = StageRecord("score_paloma", {**parameters, "bos": settings.bos, "documents": read}, inputs)

    opened = open_model(config.model(model), model_report, condition, adapters, PROBE)
    scorer = PerplexityScorer(
        opened.model,
        opened.tokenizer,
        window=settings.window,
        stride=settings.stride,
        tokens_per_pass=settings.tokens_per_pass,
    )
    variants = bos_variants(settings.bos, text_bos(opened.tokenizer))
    total = sum(file.num_bytes for file in files) * len(variants)
    with scratch(partial, f"score_paloma {model} {condition}"):
        with stage_run(config, record, model=model, condition=condition) as run:
            progress = run.bar(desc=f"score paloma {model} {condition}", unit="B", unit_scale=True, total=total)
            journals = partial / how.identity[:16]
            rows = [
                row
                for variant, bos in variants.items()
                for file in files
                for row in scored_file(scorer, file, variant, bos, journals, progress)
            ]
        write_table(output, pd.DataFrame(rows, columns=list(PALOMA_SCORE_COLUMNS)))
        record.write(
            output.with_suffix(".provenance.json"),
            num_documents=sum(file.num_documents for file in files),
            variants=list(variants),
            revision=revision,
            seed=config.seed,
        )


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    add_condition(parser)
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    parser.add_argument("--partial", type=Path, required=True, help="directory for the scores of an unfinished run")
    parser.add_argument(
        "--documents", type=Path, help="directory SLICE/SPLIT/*.jsonl.gz (default: paloma.source of the parameters)"
    )
    run_stage(main, parser.parse_args())
