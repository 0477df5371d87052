"""The directory that is published: an adapter in PEFT's format, its card, metrics and records, from a finished DAG."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd

from pipeline.artifacts.adapters import CONFIG, copy_weights
from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.model_report import model_revision
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.storage import read_json, require, write_json
from pipeline.config.models import ModelConfig
from pipeline.config.params import BASE, Params
from pipeline.dag.execution import named_run
from pipeline.dag.graph import StageGraph
from pipeline.dag.stage_kinds import evaluation_name
from pipeline.errors import ArtifactError, ConfigError
from pipeline.publish.card import CALIBRATION, Publication, model_card
from pipeline.publish.freshness import checked_records
from pipeline.publish.hub import MERGED
from pipeline.publish.licence import CARD, base_licence
from pipeline.record.provenance import RECORD, git_revision, package_versions
from pipeline.report.evaluations import METRIC_COLUMNS, read_evaluations, rows_of

METRICS_FILE = "metrics.csv"
REQUESTS = {"structured": "ood.parquet", "laws": "laws.parquet"}
"""Where the request of the card's code comes from."""


def collect(params: Params, model: str, method: str, licence: str | None, source: str = "params.yaml") -> Publication:
    """All that a card says of an adapter, from a DAG in which nothing that matters is out of date.

    Args:
        params: The parameters.
        model: Name in ``params``.
        method: Name in ``params``.
        licence: Of the base checkpoint, where it does not state it.
        source: File of the parameters, for errors.

    Raises:
        ConfigError: There is no such model or method, no axis of CALIBRATION, or nobody states the licence.
        ArtifactError: The adapter, an evaluation of it or of base, or the report is missing or out of date.
        ModelError: The base checkpoint's tokenizer cannot be loaded.
    """
    from pipeline.engines.loading.model import load_tokenizer

    for option, name, known in (("--model", model, params.models), ("--method", method, params.methods)):
        if name not in known:
            raise ConfigError(f"{option}: {source} has no {name!r}; there are {', '.join(known)}")
    if not (shown := [axis for axis in CALIBRATION if axis in params.axes]):
        raise ConfigError(f"{source}: axes: a model card needs {' or '.join(CALIBRATION)}, which are switched off")
    if absent := [name for name in (BASE, method) if name not in params.conditions]:
        raise ConfigError(f"{source}: conditions: a model card compares {method} with base; add {' and '.join(absent)}")
    root = Path(params.artifacts)
    makers = {Path(path): node.name for node in StageGraph(params).values() for path in node.outputs}
    adapters = {name: root / "adapters" / model / name for name in (method, *trained_methods(params, method))}
    evaluations = {
        (axis, condition): root / "evals" / axis / model / condition / RECORD
        for axis in params.axes
        for condition in (BASE, method)
    }
    runs = [
        *(makers[path] for path in adapters.values()),
        *(f"{evaluation_name(axis)}@{model}" for axis in params.axes),
    ]
    records = checked_records(params, runs, (BASE, method), source)
    report = read_json(named_run(f"check-model@{model}", params).paths["output"])
    (prompt, *_) = read_prompts(root / "prompts" / REQUESTS[shown[0]])
    trained = read_prompts(root / "prompts" / "train.parquet")
    return Publication(
        params=params,
        model=model,
        method=method,
        report=report,
        training={name: records[adapters[name] / RECORD] for name in trained_methods(params, method)},
        adapter=records[adapters[method] / RECORD],
        evaluations={key: records[path] for key, path in evaluations.items()},
        metrics=reported_metrics(params, model, method),
        licence=base_licence(report["checkpoint"], report["revision"], licence),
        prompt=prompt.text,
        own_requests={each.family: each.text for each in reversed(trained) if each.family in params.laws},
        num_requests=len(trained),
        has_template=load_tokenizer(params.models[model], report["revision"]).chat_template is not None,
    )


def trained_methods(params: Params, method: str) -> list[str]:
    """The method itself, or those with a weight that it is merged from."""
    merge = params.methods[method].merge
    return [method] if merge is None else [name for name, weight in merge.items() if weight]


def reported_metrics(params: Params, model: str, method: str) -> pd.DataFrame:
    """Rows of base and a method in the evaluations, columns METRIC_COLUMNS and ``undefined``, which the report has too.

    Raises:
        ArtifactError: The report's metrics.csv is missing or has other numbers.
    """
    root, table = Path(params.artifacts) / "evals", Path(params.reports) / METRICS_FILE
    found = read_evaluations(root).metrics
    wanted = found["axis"].isin(params.axes) & found["condition"].isin((BASE, method))
    rows = rows_of(found[wanted], model=model)
    if not table.exists():
        raise ArtifactError(f"{table} does not exist; `make repro` or `make tables` writes it")
    lines = set(table.read_text(encoding="utf-8").splitlines())
    if other := set(rows[list(METRIC_COLUMNS)].to_csv(index=False, header=False).splitlines()) - lines:
        raise ArtifactError(
            f"{table} is not of the evaluations in {root}: {len(other)} of their rows of {model} are not in it, "
            f"e.g. {min(other)!r}; `make tables` writes it again"
        )
    return rows


def publish(publication: Publication, output: Path, merged: bool) -> Path:
    """Write the directory, in the place of what was published there before.

    Args:
        publication: What ``collect`` found.
        output: The directory.
        merged: Whether to write merged weights, for which the model is loaded.

    Returns:
        ``output``.

    Raises:
        ConfigError: ``output`` holds something else.
        ArtifactError: See ``model_card``.
        ModelError: The model cannot be loaded, to be merged.
        StorageError: The file system refuses.
    """
    ours = all((output / name).is_file() for name in (CARD, CONFIG, METRICS_FILE))
    if output.exists() and not ours and (output.is_file() or any(output.iterdir())):
        raise ConfigError(f"--output: {output} exists and holds no published adapter; give another directory")
    params = publication.params
    source = Path(params.artifacts) / "adapters" / publication.model / publication.method
    with atomic_directory(output) as directory:
        # What evaluations have computed with; the half of float32's size beside a bfloat16 checkpoint.
        copy_weights(source, directory, params.models[publication.model].dtype)
        config = json.loads((source / CONFIG).read_text())
        base = {"base_model_name_or_path": publication.report["checkpoint"], "revision": publication.report["revision"]}
        write_json(directory / CONFIG, config | base)
        if merged:
            report = named_run(f"check-model@{publication.model}", params).paths["output"]
            checkpoint = params.models[publication.model]
            distance = write_merged(checkpoint, require(report), source, publication.prompt, directory / MERGED)
            publication = replace(publication, merged_distance=distance)
        model_card(publication).save(directory / CARD)
        publication.metrics[list(METRIC_COLUMNS)].to_csv(directory / METRICS_FILE, index=False, encoding="utf-8")
        records = {
            "model": publication.model,
            "method": publication.method,
            "base": dict(publication.report),
            "adapter": publication.adapter,
            "training": publication.training,
            "evaluations": {" ".join(key): record for key, record in publication.evaluations.items()},
            "published": {"git": git_revision(), "packages": dict(package_versions())},
        }
        write_json(directory / RECORD, records)
    return output


def write_merged(config: ModelConfig, report: Path, adapter: Path, prompt: str, output: Path) -> float:
    """Write a model with an adapter merged into its weights, and the tokenizer, in transformers' format.

    Its sampling defaults are those that the adapter is for, not the base checkpoint's.

    Args:
        config: The base checkpoint.
        report: What check_model wrote of it.
        adapter: Directory of the adapter.
        prompt: A request.
        output: Directory to make.

    Returns:
        Total variation between the next-token laws behind the request, of the weights as they are read again and of
        the adapter.

    Raises:
        ModelError: The checkpoint or adapter cannot be used, or the merged weights are not read again.
    """
    from transformers import AutoConfig

    from pipeline.engines.loading.conditioned_model import open_model
    from pipeline.engines.loading.model import load_model, next_log_probabilities

    opened = open_model(config, report, adapter, prompt)
    rows = [opened.encode(prompt)]
    law = next_log_probabilities(opened.model, rows).exp()
    model, revision = opened.model.merge_and_unload(), model_revision(report)
    model.generation_config.update(do_sample=True, temperature=1.0, top_p=1.0, top_k=0)
    stored = AutoConfig.from_pretrained(config.checkpoint, revision=revision, trust_remote_code=False)
    # Names that undo a quantisation (GPT-OSS) are not those of full weights: transformers would not find them again.
    quantised = getattr(stored, "quantization_config", None) is not None
    model.save_pretrained(output, save_original_format=not quantised)
    opened.tokenizer.save_pretrained(output)
    del opened, model
    merged = load_model(replace(config, checkpoint=str(output), revision=None))
    return float((next_log_probabilities(merged, rows).exp() - law).abs().sum() / 2)
