"""Fabricated evaluations: small directories of the shape that the evaluation stages write."""

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pipeline.artifacts.prompts import write_prompts
from pipeline.artifacts.storage import write_json, write_table
from pipeline.config.params import Params, load_params
from pipeline.core.prompts.structured import build_split
from pipeline.report.evaluations import METRIC_COLUMNS, Evaluations, ReportContext
from pipeline.report.figures.drawing import draw_all
from tests.composition import write_changed
from tests.conftest import ROOT

PROVENANCE = {
    "git": None,
    "parameters_sha256": "0" * 64,
    "identity": "1" * 64,
    "device": "cpu",
    "started": "now",
    "wall_time_seconds": 1.0,
}
CONDITIONS = ("base", "soft", "hard")
W1 = "wasserstein_1_normalised"


def metric_row(axis, model, condition, split, metric, value, *, n=100, width=0.01, floor=math.nan, undefined=0):
    """One aggregate row; NaN is undefined."""
    return {
        "axis": axis,
        "model": model,
        "condition": condition,
        "split": split,
        "family": "",
        "metric": metric,
        "value": value,
        "n": n,
        "ci_low": value - width,
        "ci_high": value + width,
        "floor": floor,
        "undefined": undefined,
        "provenance": f"{axis}/{model}/{condition}/provenance.json",
    }


def metric_frame(rows):
    """The tidy metrics table of rows."""
    return pd.DataFrame(rows, columns=[*METRIC_COLUMNS, "undefined"])


def params_of(models, methods=("soft", "hard")) -> Params:
    """Parameters of models of some names, whose display names are in capitals."""
    params = load_params(ROOT / "params.yaml")
    model = next(iter(params.models.values()))
    return dataclasses.replace(
        params,
        models={name: dataclasses.replace(model, display_name=name.upper()) for name in models},
        methods={name: params.methods[name] for name in methods},
        conditions=["base", *methods],
    )


def context_of(params, rows):
    """What a report is made from, of metrics alone."""
    return ReportContext(params, Evaluations(metric_frame(rows), pd.DataFrame(), {}, {}), [])


def texts(table):
    """What the cells show, by the labels of their row."""
    return {
        tuple(cell.text for cell in row[: table.labels]): [
            f"{cell.text} {cell.detail}".strip() for cell in row[table.labels :]
        ]
        for row in table.cells
    }


def write_fabricated(root: Path, rows, failures=None, results=None, **tables) -> None:
    """Write the rows of one evaluation with its tables, as ``write_evaluation`` would."""
    first = rows[0]
    directory = root / first["axis"] / first["model"] / first["condition"]
    directory.mkdir(parents=True)
    kept = [{key: value for key, value in row.items() if key != "provenance"} for row in rows]
    for row in kept:
        row.update({k: None for k, v in row.items() if isinstance(v, float) and math.isnan(v)})
    write_json(directory / "metrics.json", {"metrics": kept, "failures": failures or {}})
    write_json(directory / "provenance.json", {**PROVENANCE, **(results or {})})
    for name, table in tables.items():
        write_table(directory / f"{name}.parquet", table)


@contextlib.contextmanager
def figures_drawn(*names: str) -> Iterator[None]:
    """Reports draw these figures alone, where the others show nothing: drawing takes most of a report's time."""

    def draw_few(drawings, directory):
        few = {section: {name: of[name] for name in names if name in of} for section, of in drawings.items()}
        return draw_all(few, directory)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.report.write.draw_all", draw_few)
        yield


@pytest.fixture(scope="session")
def two_models(tmp_path_factory) -> Path:
    """Parameters with two models, alpha and beta, of different tokenizers; SSOT on."""
    path = tmp_path_factory.mktemp("two_models") / "params.yaml"
    values = yaml.safe_load((ROOT / "params.yaml").read_text())
    model = next(iter(values["models"].values()))
    values["models"] = {
        name: {**model, "display_name": shown, "tokenizer": f"{name}-tokenizer"}
        for name, shown in (("alpha", "Alpha_1B"), ("beta", "Beta 2B"))
    }
    values["generate"]["ssot"]["enabled"] = True
    values["methods"] = {name: values["methods"][name] for name in ("soft", "hard")}
    values["conditions"] = None
    values["tracking"]["mode"] = "disabled"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


@pytest.fixture(scope="session")
def prompts(tmp_path_factory):
    """Held-out prompts of two families and their file."""
    members = build_split("ood", selection="selected", families=["poisson", "maxwell"])
    path = tmp_path_factory.mktemp("prompts") / "ood.parquet"
    write_prompts(path, members)
    return members, path


def structured(root, model, condition, value, prompts, by_prompt=False):
    """A structured evaluation with samples near 2; with ``by_prompt`` it has numbers of each prompt and family."""
    n, floor = (1000, 0.012) if condition in CONDITIONS else (250, 0.023)
    rows = []
    for split in ("ood", "unseen"):
        names = ("structured", model, condition, split)
        rows.append(metric_row(*names, W1, value, n=n - 10, floor=floor))
        rows.append(metric_row(*names, "valid_rate", 0.9, n=n))
    frame = pd.DataFrame([(p.prompt_id, p.split, p.family) for p in prompts], columns=["prompt_id", "split", "family"])
    tables = {"samples": frame[["prompt_id"]].assign(values=[[1.0, 2.0, 2.0, 3.0]] * len(prompts))}
    if by_prompt:
        tables["per_prompt"] = frame.assign(num_samples=1000, num_valid=990, **{W1: value})
        rows += [
            metric_row("structured", model, condition, "ood", metric, value, width=1e25, floor=0.02)
            | {"family": family}  # an answer of 25 digits has its place on the figures' axes
            for metric in (W1, f"{W1}_prompt_median")
            for family in frame["family"].unique()
        ]
    write_fabricated(root, rows, {"ood": {"not_a_number": 7}}, **tables)


def open_ended(root, model, condition, size):
    """An open-ended evaluation of two prompts with the given support size."""
    categories = ["city", "weekday"]
    per_prompt = pd.DataFrame({"prompt_id": categories, "category": categories, "unique_fraction": [0.1, 0.2]})
    per_prompt["top_p_support_size"] = [size, 2.0 * size]
    answers = pd.DataFrame(
        [("city", "city", "Paris | $x$", 3), ("city", "city", "北京", 1), ("weekday", "weekday", "Monday", 4)],
        columns=["prompt_id", "category", "answer", "count"],
    )
    names = ("open", model, condition, "open")
    rows = [metric_row(*names, "top_p_support_size", 1.5 * size, n=2), metric_row(*names, "unique_fraction", 0.15, n=2)]
    write_fabricated(root, rows, per_prompt=per_prompt, answers=answers)


def mcq(root, model, condition, parsed):
    """An MCQ evaluation of 100 generations."""
    names, variation = ("mcq", model, condition, "mcq"), 0.2 if parsed else math.nan
    rows = [
        metric_row(*names, "mcq_parse_rate", parsed / 100, n=100),
        metric_row(*names, "mcq_total_variation", variation, n=parsed, floor=0.07, undefined=int(not parsed)),
    ]
    write_fabricated(root, rows, {"mcq": {"missing_answer": 100 - parsed}})


def retention(root, model, condition, value, prompt_format="chat"):
    """A retention evaluation of two tasks with 100 items each."""
    rows = [
        metric_row("retention", model, condition, split, metric, value + 0.1 * place, n=100)
        for place, split in enumerate(("all", "tinyMMLU", "tinyGSM8k (flexible)"))
        for metric in ("gp_irt", "accuracy")
    ]
    write_fabricated(root, rows, {"tinyGSM8k": {"no_number": 3}}, {"prompt_format": prompt_format})


def anchors(root, model, condition, divergence):
    """Divergence from base on two kinds of instructions; base is at 0."""
    value = 0.0 if condition == "base" else divergence
    rows = [
        metric_row("anchors", model, condition, split, metric, value + shift, n=20)
        for split, shift in (("all", 0.0), ("arithmetic", 0.01), ("recipes", 0.02))
        for metric in ("anchor_kl_nats", "anchor_reverse_kl_nats")
    ]
    write_fabricated(root, rows)


PLAIN = {"soft_share": 1.0, "anchors": None, "train": {}}
METHODS = {
    "soft": PLAIN,
    "hard": {**PLAIN, "soft_share": 0.0},
    "anchored": {**PLAIN, "anchors": {"weight": 1.0, "sequences_per_step": 8}},
    "mixed": {**PLAIN, "soft_share": 0.25, "train": {"learning_rate": 1e-4}},
}


def with_methods(source: Path, path: Path, *names: str) -> Params:
    """Parameters of a file with other methods, in the given order; written to ``path``."""
    methods = {name: METHODS[name] for name in names}
    return load_params(write_changed(source, path, methods=methods, conditions=None))
