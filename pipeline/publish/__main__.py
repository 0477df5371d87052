"""Hand an adapter on: ``python -m pipeline.publish`` writes a directory for others; ``hf upload`` sends it to the hub.

The directory has the adapter in PEFT's format, a model card made from the report, the metrics that the card shows
(metrics.csv) and the record of the run that made the adapter (provenance.json).
"""

import json
from pathlib import Path

import pandas as pd

from pipeline.artifacts.adapters import CONFIG, copy_weights
from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.storage import read_json, require, write_json
from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.config.params import BASE, Params, load_params
from pipeline.errors import ArtifactError, ConfigError, did_you_mean
from pipeline.publish.card import Publication, model_card
from pipeline.publish.licence import CARD, base_licence
from pipeline.record.provenance import RECORD

METRICS_FILE = "metrics.csv"


def collect(params: Params, model: str, method: str, repository: str | None, licence: str | None) -> Publication:
    """All that a card says of an adapter of a finished DAG. Raises PipelineError for what is missing."""
    from pipeline.engines.loading.model import load_tokenizer

    for option, name, known in (("--model", model, params.models), ("--method", method, params.methods)):
        if name not in known:
            hint = did_you_mean(name, known)
            raise ConfigError(f"{option}: there is no {name!r}; {hint}there are {', '.join(known)}")
    root, table = Path(params.artifacts), require(Path(params.reports) / METRICS_FILE)
    record = read_json(require(root / "adapters" / model / method / RECORD))
    report = read_json(root / "models" / f"{model}.json")
    # First of what takes time.
    stated = base_licence(report["checkpoint"], report["revision"], licence)
    metrics = pd.read_csv(table)
    rows = metrics[(metrics["model"] == model) & metrics["condition"].isin((BASE, method)) & metrics["family"].isna()]
    if missing := {BASE, method} - set(rows["condition"]):
        raise ArtifactError(f"{table} has no numbers of {model} {min(missing)}; `make repro` brings it up to date")
    trained = read_prompts(root / "prompts" / "train.parquet")
    kinds = {prompt.family if prompt.family in params.laws else "": prompt.text for prompt in reversed(trained)}
    unseen = root / "prompts" / ("ood.parquet" if "structured" in params.axes else "laws.parquet")
    return Publication(
        params=params,
        model=model,
        method=method,
        report=report,
        record=record,
        metrics=rows,
        licence=stated,
        prompt=read_prompts(unseen)[0].text,
        examples=list(kinds.values()),
        num_requests=len(trained),
        has_template=load_tokenizer(params.models[model], report["revision"]).chat_template is not None,
        repository=repository,
    )


def write(publication: Publication, output: Path) -> None:
    """Write the directory in the place of what was published there before. Raises ConfigError for anything else."""
    ours = all((output / name).is_file() for name in (CARD, CONFIG, METRICS_FILE))
    if output.exists() and not ours and (output.is_file() or any(output.iterdir())):
        raise ConfigError(f"--output: {output} exists and holds no published adapter; give another directory")
    params, report = publication.params, publication.report
    source = Path(params.artifacts) / "adapters" / publication.model / publication.method
    with atomic_directory(output) as directory:
        # What evaluations have computed with; the half of float32's size beside a bfloat16 checkpoint.
        copy_weights(source, directory, params.models[publication.model].dtype)
        base = {"base_model_name_or_path": report["checkpoint"], "revision": report["revision"]}
        write_json(directory / CONFIG, json.loads((source / CONFIG).read_text()) | base)
        model_card(publication).save(directory / CARD)
        publication.metrics.to_csv(directory / METRICS_FILE, index=False)
        write_json(directory / RECORD, publication.record)


def main(
    params: Path, model: str, method: str, output: Path | None, repository: str | None, licence: str | None
) -> None:
    """Write the directory. Raises PipelineError."""
    directory = output or Path("published") / f"{model}-{method}"
    write(collect(load_params(params), model, method, repository, licence), directory)
    print(f"written to {directory}: {', '.join(sorted(path.name for path in directory.iterdir()))}")
    print(f"nothing was sent; `hf upload {repository or 'OWNER/NAME'} {directory}` sends it to the hub")


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.publish"))
