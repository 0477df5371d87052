"""Claims over the models of some sets of evaluations, training seeds of a model averaged, as a table."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.artifacts.storage import read_table
from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.core.statistics.sign_flips import Effect
from pipeline.errors import ArtifactError
from pipeline.record.provenance import join_sources
from pipeline.report.claims.decide import Evidence, decide, evidence, side, some_models, together
from pipeline.report.claims.declared import CLAIMS, Contrast
from pipeline.report.evaluations import Evaluations, rows_of
from pipeline.report.table import DASH, Table, interval_text, number_text, probability_text, records_table

UNITS = {"structured": "families", "open": "prompts", "novelty": "prompts", "retention": "items"}
"""The pairs of one model's test, by axis; of other figures the recorded bootstrap of the change from base is taken."""


def values_by_unit(evaluations: Evaluations, contrast: Contrast, model: str, condition: str) -> pd.Series | None:
    """float64 by family, prompt or item; None where there is none, or no table of them."""
    axis, metric, split = contrast.axis, contrast.metric, contrast.split
    shown = rows_of(evaluations.metrics, axis=axis, model=model, condition=condition, split=split, metric=metric)
    path = evaluations.path(axis, model, condition, "per_prompt.parquet")
    if path is None or shown.empty or axis not in UNITS or metric.startswith("gp_irt"):
        return None
    whole = split in ("all", axis)
    unit, column = {"structured": ("family", metric), "retention": ("item", "value")}.get(axis, ("prompt_id", metric))
    table = read_table(path, [unit, column, *([] if whole else ["split"])])
    own = table if whole else table[table["split"] == split]
    return own.groupby(unit, sort=True)[column].mean().astype(float)


def _differences(contrast: Contrast, own: pd.Series, other: pd.Series) -> pd.Series:
    own, other = own.align(other, join="inner")
    if not contrast.log_ratio:
        return own - other
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log10(own / other).where((own > 0) & (other > 0))


def _valid_share(evaluations: Evaluations, model: str, split: str) -> float:
    found = rows_of(
        evaluations.metrics,
        axis="structured",
        model=model,
        condition="base",
        split=split,
        metric="valid_rate",
        family="",
    )
    return float(found["value"].iloc[0]) if len(found) else math.nan


def _recorded(runs: Sequence[Evaluations], contrast: Contrast, model: str) -> Evidence | None:
    """From metrics.csv: the change from base with its bootstrap interval, of one run; a mean alone of several runs, or
    of two methods."""
    labels = {"axis": contrast.axis, "split": contrast.split, "metric": contrast.metric, "model": model, "family": ""}
    estimates, intervals = [], []
    for run in runs:
        sides = [rows_of(run.metrics, **labels, condition=name) for name in (contrast.own, contrast.other)]
        if any(rows.empty for rows in sides):
            continue
        own, other = (rows.iloc[0] for rows in sides)
        estimates.append(own["value"] - other["value"])
        changed, sign = (own, 1) if contrast.other == "base" else (other, -1)
        ends = sorted(sign * changed[name] for name in ("change_low", "change_high"))
        intervals.append(ends if "base" in (contrast.own, contrast.other) else (math.nan, math.nan))
    if not estimates:
        return None
    low, high = intervals[0] if len(intervals) == 1 else (math.nan, math.nan)
    # No narrower interval was recorded, so the same one has to lie within a margin.
    effect = Effect(len(estimates), float(np.mean(estimates)), float(low), float(high), math.nan, low, high)
    return Evidence(effect, "bootstrap of the change" if math.isfinite(effect.ci_low) else "none")


def _of_run(run: Evaluations, contrast: Contrast, model: str) -> pd.Series | None:
    """Differences by unit; None where a condition has no table."""
    own, other = (values_by_unit(run, contrast, model, name) for name in (contrast.own, contrast.other))
    return None if own is None or other is None else _differences(contrast, own, other)


def effects_by_model(runs: Mapping[str, Sequence[Evaluations]], contrast: Contrast, seed: int) -> dict[str, Evidence]:
    """The effect of a contrast in each model that has both conditions; ``runs`` by model, one for each training seed,
    whose differences of a family, prompt or item are averaged."""
    found = {}
    for model, own_runs in runs.items():
        valid = [_valid_share(run, model, contrast.split) for run in own_runs] if contrast.base_validity else []
        if any(not share >= contrast.base_validity for share in valid):
            continue
        by_run = [_of_run(run, contrast, model) for run in own_runs]
        differences = [values for values in by_run if values is not None]
        if differences:
            mean = pd.concat(differences, axis=1).mean(axis=1, skipna=False)
            names = (seed, model, contrast.metric, contrast.split, contrast.own, contrast.other)
            found[model] = evidence(mean.to_numpy(), names, UNITS[contrast.axis])
        elif recorded := _recorded(own_runs, contrast, model):
            found[model] = recorded
    return found


def _sources(runs: Mapping[str, Sequence[Evaluations]], contrast: Contrast) -> str:
    """The provenance files behind a contrast."""
    sides = (contrast.own, contrast.other)
    pairs = [(run, model, name) for model, own in runs.items() for run in own for name in sides]
    return join_sources([run.sources.get((contrast.axis, model, name)) for run, model, name in pairs])


def same_prompts(runs: Sequence[Evaluations], further: Evaluations, model: str) -> None:
    """Raises ArtifactError where a further run of a model was asked other numbers or other requests."""
    for run in runs[:1]:
        for axis in ("structured", "open", "novelty"):
            sides = [source.path(axis, model, "base", "per_prompt.parquet") for source in (run, further)]
            if None not in sides:
                first, second = (set(read_table(path, ["prompt_id"])["prompt_id"]) for path in sides)
                if first != second:
                    raise ArtifactError(f"{model} was asked {len(first ^ second)} other prompts of {axis}")


def claims_records(runs: Mapping[str, Sequence[Evaluations]], seed: int) -> pd.DataFrame:
    """One row for each contrast of each claim, and one for a claim whose contrasts must hold together."""
    records = []
    for claim in CLAIMS:
        by_row = [effects_by_model(runs, contrast, seed) for contrast in claim.contrasts]
        rows = [decide(contrast, by_model, seed) for contrast, by_model in zip(claim.contrasts, by_row, strict=True)]
        if claim.contrasts[0].quantifier == "some":
            some_models(rows, by_row, claim.contrasts[0])
        for contrast, row in zip(claim.contrasts, rows, strict=True):
            labels = {"primary_metric": contrast.metric, "contrast": contrast.name, "split": contrast.split}
            sources = {
                run.sources.get((contrast.axis, model, name))
                for model, own in runs.items()
                for run in own
                for name in (contrast.own, contrast.other)
            }
            row |= {**labels, "margin": contrast.margin, "provenance": join_sources(sorted(filter(None, sources)))}
        if claim.together:
            sides = [
                {model: side(own.effect, contrast) for model, own in by_model.items()}
                for contrast, by_model in zip(claim.contrasts, by_row, strict=True)
            ]
            row = together(rows, sides)
            rows.append(row | {"primary_metric": "", "contrast": "together", "split": "", "margin": math.nan})
        records += [{"id": claim.name, "claim": claim.text, **row, "paper": claim.paper} for row in rows]
    order = [
        "id",
        "claim",
        "primary_metric",
        "contrast",
        "split",
        "margin",
        "n_models",
        "estimate",
        "ci_low",
        "ci_high",
    ]
    order += ["holds", "against", "open", "share_low", "share_high", "p", "p_method", "verdict", "paper", "provenance"]
    return pd.DataFrame(records)[order]


def claims_table(runs: Mapping[str, Sequence[Evaluations]], seed: int) -> Table | None:
    """The claims of the paper that these evaluations say something of; None without any."""
    records = claims_records(runs, seed)
    records = records[records["verdict"] != "not run"].reset_index(drop=True)
    first = ~records["id"].duplicated()
    records = records.assign(shown=(records["id"] + ". " + records["claim"]).where(first, ""))
    columns = {
        "Claim": lambda row: row.shown,
        "Metric": lambda row: METRICS[row.primary_metric].column_title if row.primary_metric else "all of it",
        "Split": lambda row: SHORT_SPLIT_TITLES.get(row.split, row.split) or DASH,
        "Contrast": lambda row: row.contrast,
        "Effect": lambda row: number_text(row.estimate, 3, "+"),
        "95% interval": lambda row: interval_text(row.ci_low, row.ci_high, 3),
        "Verdict": lambda row: row.verdict,
        "Models": lambda row: f"{row.holds} of {row.n_models}",
        "p": lambda row: probability_text(row.p),
        "The paper": lambda row: row.paper if row.shown else "",
    }
    pairs = "One model: each row is its own test." if len(runs) == 1 else "Mean over models, the pairs of the test."
    note = (
        "Effect: the first condition less the second, or the log10 of their ratio, mean over families, prompts or "
        f"items. {pairs} Holds: the 95% interval lies beyond the margin on the claim's side; contradicted: on the "
        "other; kept: the 90% interval lies within the margin; for most models: the interval of their share lies above "
        "one half. Models: in how many it holds by their own intervals. p and interval are of one test; changes of "
        "perplexity, benchmark scores and answer positions have the bootstrap's interval and no p. C16 is for the "
        "ablations."
    )
    table = records_table("claims", "What the paper claims, and what these models show", records, columns, 4, note)
    return table and dataclasses.replace(table, frame=records.drop(columns="shown"))
