"""The report of twelve models under the configured methods, base and ssot, on all axes, by part.

The evaluations are synthetic: random numbers in the files' formats and at the paper's sizes (42 structured prompts of
1,000 answers, 102 open-ended prompts, 1,100 prompts of NoveltyBench, five tasks, sixteen slices, eight kinds of
instructions). Models are named so, and no number in them means anything.
"""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from pipeline.artifacts.prompts import read_prompts, write_prompts
from pipeline.artifacts.scores import CDF_COLUMNS
from pipeline.artifacts.storage import write_json, write_table
from pipeline.axes.mcq.report import MCQ, SHARES
from pipeline.axes.novelty.report import CALLS
from pipeline.axes.open.report import OPEN
from pipeline.axes.registry import METRICS
from pipeline.axes.retention.accuracy import TEST_COLUMNS
from pipeline.axes.structured.tables import BUDGET, CALIBRATION, EXACT, STREAMS, STRUCTURED, TAILS
from pipeline.config.evaluation import QUESTION_AXES
from pipeline.config.params import Params, load_params
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import Prompt, build_split
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import TESTED
from pipeline.report.across_axes.transfer import SUPPORT_SIZE
from pipeline.report.tables.retention import ANCHORS

NUM_MODELS, NUM_SAMPLES, NUM_BINS, NUM_POINTS = 12, 1000, 20, 129
OPEN_PROMPTS, NOVELTY_PROMPTS = 102, {"curated": 100, "wildchat": 1000}
CATEGORIES = ("city", "mammal", "weekday")
TASKS = ("tinyMMLU", "tinyHellaswag", "tinyTruthfulQA", "tinyWinogrande", "tinyGSM8k (flexible)")
SLICES = tuple(f"slice_{number}" for number in range(16))
KINDS = tuple(f"kind_{number}" for number in range(8))
SEED = 0


def _row(split: str, metric: str, rng: np.random.Generator, family: str = "") -> dict:
    value = float(rng.uniform(0.05, 0.5))
    sampled = metric.startswith(("wasserstein", "pit_wasserstein", "pit_ks", "energy", "quantile"))
    floor = 0.02 if sampled else None
    return {
        "split": split,
        "family": family,
        "metric": metric,
        "value": value,
        "n": NUM_SAMPLES,
        "ci_low": 0.8 * value,
        "ci_high": 1.2 * value,
        "floor": floor,
        "undefined": 0,
    }


def _structured(prompts: list[Prompt], rng: np.random.Generator) -> tuple[list[dict], dict[str, pd.DataFrame]]:
    per_family = list(dict.fromkeys(measure.metric for measure in (*STRUCTURED, *EXACT)))
    metrics = dict.fromkeys([*per_family, *(m.metric for m in (*CALIBRATION, *TAILS, *STREAMS, *BUDGET))])
    rows = []
    for split in ("ood", "unseen"):
        rows += [_row(split, metric, rng) for metric in metrics]
        families = dict.fromkeys(prompt.family for prompt in prompts if prompt.split == split)
        rows += [_row(split, metric, rng, family) for metric in per_family for family in families]
    names = [prompt.prompt_id for prompt in prompts]
    samples = [np.round(quantile(prompt.law, rng.random(NUM_SAMPLES)), 5) for prompt in prompts]
    columns = {"prompt_id": names, "split": [p.split for p in prompts], "family": [p.family for p in prompts]}
    per_prompt = pd.DataFrame(columns).assign(num_samples=NUM_SAMPLES, num_valid=NUM_SAMPLES, floor=0.01)
    for metric in TESTED:
        per_prompt[metric] = rng.uniform(0.05, 0.5, len(names))
    return rows, {
        "per_prompt": per_prompt,
        "samples": pd.DataFrame({"prompt_id": names, "values": samples}),
        "pit": _long(names, NUM_BINS, bin=np.arange(NUM_BINS), count=50, expected=50.0),
        "kl_by_depth": _long(names, 8, target="grid", prefix_index=np.arange(8), kl_nats=0.3, n=4),
        "exact_cdf": pd.concat([_exact_cdf(prompt) for prompt in prompts], ignore_index=True)[list(CDF_COLUMNS)],
    }


def _long(names: list[str], size: int, **columns) -> pd.DataFrame:
    """``size`` rows per prompt with the same columns for each."""
    return pd.concat([pd.DataFrame({"prompt_id": [name] * size, **columns}) for name in names], ignore_index=True)


def _exact_cdf(prompt: Prompt) -> pd.DataFrame:
    law = prompt.law.freeze()
    x = np.linspace(*law.ppf([0.001, 0.999]), NUM_POINTS)
    cdf = law.cdf(x)
    return pd.DataFrame({"prompt_id": prompt.prompt_id, "x": x, "cdf_low": cdf, "cdf_high": cdf, "target_cdf": cdf})


def _open(rng: np.random.Generator) -> tuple[list[dict], dict[str, pd.DataFrame]]:
    names = [f"open-{number}" for number in range(OPEN_PROMPTS)]
    categories = [CATEGORIES[number % len(CATEGORIES)] for number in range(OPEN_PROMPTS)]
    levels = [*np.round(np.arange(0.05, 1, 0.05), 2).tolist(), 0.99, 0.999]
    counts = rng.integers(1, 30, size=(OPEN_PROMPTS, 40))
    answers = pd.DataFrame(
        [
            (name, category, f"{category} {place}", int(count))
            for name, category, own in zip(names, categories, counts, strict=True)
            for place, count in enumerate(own)
        ],
        columns=["prompt_id", "category", "answer", "count"],
    )
    per_prompt = pd.DataFrame({"prompt_id": names, "category": categories})
    per_prompt = per_prompt.assign(
        top_p_support_size=rng.integers(1, 200, OPEN_PROMPTS), unique_fraction=rng.uniform(0, 1, OPEN_PROMPTS)
    )
    support = [(name, level, int(rng.integers(1, 200))) for name in names for level in levels]
    return [_row("open", measure.metric, rng) for measure in (*OPEN, SUPPORT_SIZE)], {
        "per_prompt": per_prompt,
        "answers": answers,
        "support": pd.DataFrame(support, columns=["prompt_id", "threshold", "support_size"]),
    }


def _novelty(rng: np.random.Generator) -> tuple[list[dict], dict[str, pd.DataFrame]]:
    rows = [_row(split, metric, rng) for split in ("all", *NOVELTY_PROMPTS) for metric in ("distinct", "utility")]
    rows += [_row("all", measure.metric, rng) for measure in CALLS]
    prompts = [
        (f"{split}-{number}", split, "", f"Request {number}")
        for split, size in NOVELTY_PROMPTS.items()
        for number in range(size)
    ]
    per_prompt = pd.DataFrame(prompts, columns=["prompt_id", "split", "category", "prompt"])
    per_prompt = per_prompt.assign(
        num_generations=10, distinct=rng.integers(1, 10, len(prompts)), utility=rng.uniform(0, 10, len(prompts))
    )
    classes = [
        (name, place, f"response {place} " * 20, 2, int(rng.integers(1, 11)), 0.5)
        for name, *_ in prompts
        for place in range(4)
    ]
    columns = ["prompt_id", "class_index", "representative", "size", "rating", "reward"]
    return rows, {"per_prompt": per_prompt, "classes": pd.DataFrame(classes, columns=columns)}


def _retained(
    axis: str, splits: tuple[str, ...], metrics: tuple[str, ...], condition: str, rng: np.random.Generator
) -> tuple[list[dict], dict[str, pd.DataFrame]]:
    """Either retention axis: its metrics by task or slice and in all, and tests against base."""
    rows = [_row(split, metric, rng) for split in (*splits, "all") for metric in metrics]
    if condition == "base":
        return rows, {}
    tested = {"retention": "accuracy", "paloma": "bits_per_byte"}[axis]
    rows += [_row(split, f"{tested}_difference", rng) for split in (*splits, "all")]
    tests = [(split, tested, -0.01, -0.03, 0.01, 0.02, 0.03, 0.3, 0.2, 0.9, 0.9, "cannot tell") for split in splits]
    return rows, {"tests": pd.DataFrame(tests, columns=list(TEST_COLUMNS))}


def _evaluation(
    axis: str, condition: str, prompts: list[Prompt], rng: np.random.Generator
) -> tuple[list[dict], dict[str, pd.DataFrame]]:
    if axis == "structured":
        return _structured(prompts, rng)
    if axis == "open":
        return _open(rng)
    if axis == "mcq":
        return [_row("mcq", measure.metric, rng) for measure in (*MCQ, *SHARES)], {}
    if axis == "novelty":
        return _novelty(rng)
    if axis == "retention":
        return _retained(axis, TASKS, ("gp_irt", "accuracy", "irt", "p_irt"), condition, rng)
    if axis == "anchors":
        return [_row(kind, measure.metric, rng) for kind in ("all", *KINDS) for measure in ANCHORS], {}
    if axis in QUESTION_AXES:
        return [_row("all", name, rng) for name, metric in METRICS.items() if metric.axis == axis], {}
    return _retained(axis, SLICES, ("bits_per_byte", "perplexity"), condition, rng)


def write_synthetic(root: Path, params: Path) -> Params:
    """Write parameters, prompts, evaluations and training logs below a directory; the parameters are returned."""
    values = yaml.safe_load(params.read_text())
    template = next(iter(values["models"].values()))
    values["models"] = {
        f"synthetic_{number}": {**template, "display_name": f"Synthetic {number}", "tokenizer": f"family {number % 4}"}
        for number in range(NUM_MODELS)
    }
    values["experiment"] = "synthetic"
    values["tracking"]["mode"] = "disabled"
    (root / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    written = load_params(root / "params.yaml")
    prompts = [prompt for split in ("unseen", "ood") for prompt in build_split(split, selection="selected")]
    write_prompts(root / "prompts.parquet", prompts)
    for model in values["models"]:
        for axis in written.axes:
            for condition in (*written.conditions, *(["ssot"] if axis in ("structured", "open") else [])):
                rng = random_stream(SEED, "synthetic", axis, model, condition)
                _write(root / "evals" / axis / model / condition, *_evaluation(axis, condition, prompts, rng))
        for method in (name for name, made in written.methods.items() if made.targets):
            path = root / "adapters" / model / method / "train_log.jsonl"
            path.parent.mkdir(parents=True)
            path.write_text("".join(f'{{"step": {step}, "loss": {2 / step}}}\n' for step in range(1, 1989)))
    return written


def _write(directory: Path, rows: list[dict], tables: Mapping[str, pd.DataFrame]) -> None:
    axis, model, condition = directory.parts[-3:]
    directory.mkdir(parents=True)
    names = {"axis": axis, "model": model, "condition": condition}
    write_json(directory / "metrics.json", {"metrics": [{**names, **row} for row in rows], "failures": {}})
    write_json(
        directory / "provenance.json",
        {
            "git": None,
            "parameters_sha256": "0" * 64,
            "identity": "1" * 64,
            "device": "synthetic",
            "started": "never",
            "wall_time_seconds": 0.0,
        },
    )
    for name, table in tables.items():
        write_table(directory / f"{name}.parquet", table)


class Timer:
    """Wall-clock seconds by part, of functions called through it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, part: str, function, *arguments):
        """The function's result; its time is added to the part."""
        started = time.perf_counter()
        result = function(*arguments)
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - started
        return result


def run(params: Path = Path("params.yaml")) -> list[dict]:
    """Time the whole report, and its parts one after the other."""
    from pipeline.axes.novelty.cases import novelty_cases
    from pipeline.report import assemble as report
    from pipeline.report.context import ReportContext
    from pipeline.report.evaluations import display_names, read_evaluations
    from pipeline.report.figures.drawing import draw, draw_all
    from pipeline.report.page.explorer import explorer_payload
    from pipeline.report.tables.retention import one_name_per_variant
    from pipeline.report.tables.table_text import write_table_texts
    from pipeline.report.write import write_report

    with tempfile.TemporaryDirectory() as folder:
        root, timer = Path(folder), Timer()
        config = write_synthetic(root, params)
        prompt_path = root / "prompts.parquet"
        prompts = read_prompts(prompt_path)
        timer(
            "whole report",
            write_report,
            config,
            [root / "evals"],
            [prompt_path],
            root / "reports",
            [root / "adapters"],
        )
        evaluations = timer("read evaluations", read_evaluations, root / "evals")
        names = display_names(config)
        metrics = one_name_per_variant(evaluations.metrics)
        context = ReportContext(config, evaluations, metrics, prompts)
        tables = timer("tables", report.tables_by_section, context)
        for section in tables.values():
            for table in section:
                timer("table files", write_table_texts, table, root)
        drawings = timer("figures: choose data", report.drawings_by_section, context)
        timer("figures: all, in parallel", draw_all, drawings, root)
        for members in drawings.values():
            for name, drawing in members.items():
                timer(f"figures: {name}, alone", draw, name, drawing, root)
        timer("cases of NoveltyBench", novelty_cases, evaluations, names, config.conditions)
        timer("explorer's data", explorer_payload, evaluations, prompts, names, config.conditions)
        page = root / "reports" / "index.html"
        size = page.stat().st_size / 1e6
    return [
        {
            "benchmark": "report",
            "case": part,
            "seconds": seconds,
            "note": f"page of {size:.0f} MB" if part == "whole report" else "",
        }
        for part, seconds in timer.seconds.items()
    ]
