"""Claims over the models of some sets of evaluations, training seeds of a model averaged, as a table."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.artifacts.storage import read_table
from pipeline.axes.mcq.multiple_choice import LETTER_COUNTS, total_variation, total_variation_effect
from pipeline.axes.registry import METRICS
from pipeline.config.params import BASE
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import heterogeneity
from pipeline.core.statistics.intervals import NORMAL_QUANTILE
from pipeline.core.statistics.sign_flips import Effect
from pipeline.errors import ArtifactError
from pipeline.record.provenance import join_sources
from pipeline.report.claims.decide import Evidence, decide, evidence, side, some_models, together
from pipeline.report.claims.declared import CLAIMS, Contrast
from pipeline.report.evaluations import UNITS, Evaluations, rows_of
from pipeline.report.table import Table, probability_text, records_table

PLACES = {"ood": " on held-out families", "unseen": " on unseen parameters", "all": "", "open": "", "mcq": ""}


def _valid_share(evaluations: Evaluations, model: str, split: str) -> float:
    labels = {"axis": "structured", "model": model, "condition": BASE, "split": split, "metric": "valid_rate"}
    found = rows_of(evaluations.metrics, **labels, family="")
    return float(found["value"].iloc[0]) if len(found) else math.nan


def _normal(n: int, estimate: float, law: Any, method: str, *means: float) -> Evidence:
    p = 2 * float(law.cdf(0) if law.mean() > 0 else law.sf(0))
    return Evidence(Effect(n, estimate, *law.interval(0.95), p, *law.interval(0.9)), method, *means)


def _recorded(runs: Sequence[Evaluations], contrast: Contrast, model: str) -> Evidence | None:
    """From metrics.csv: a difference of two changes from base, mean over runs. Their bootstrap intervals are taken for
    those of normal laws, and widths added as if all errors were one: no dependence between them makes it wider."""
    labels = {"axis": contrast.axis, "split": contrast.split, "metric": contrast.metric, "model": model, "family": ""}
    means, ends = [], []
    for run in runs:
        sides = [rows_of(run.metrics, **labels, condition=name) for name in (contrast.own, contrast.other)]
        if any(rows.empty for rows in sides):
            continue
        own, other = (rows.iloc[0] for rows in sides)
        means.append((own["value"], other["value"]))
        (low, high), (other_low, other_high) = (
            (0.0, 0.0) if row["condition"] == BASE else (row["change_low"], row["change_high"]) for row in (own, other)
        )
        ends.append((low - other_high, high - other_low))
    if not means:
        return None
    own_mean, other_mean = np.mean(means, axis=0)
    low, high = np.mean(ends, axis=0)
    law = stats.norm((low + high) / 2, (high - low) / 2 / NORMAL_QUANTILE)
    method = "bootstrap intervals as normal laws" if math.isfinite(low + high) else "none"
    return _normal(len(means), own_mean - other_mean, law, method, own_mean, other_mean)


def _of_runs(runs: Sequence[Evaluations], contrast: Contrast, model: str) -> pd.DataFrame | None:
    """Both conditions and their difference by unit, means over the runs that have both conditions."""
    labels, compared = (contrast.axis, contrast.split, contrast.metric, model), []
    for run in runs:
        own, other = (run.by_unit(*labels, condition) for condition in (contrast.own, contrast.other))
        if own is None or other is None:
            continue
        both = pd.DataFrame({"own": own, "other": other}).dropna()
        compared.append(both.assign(difference=contrast.difference(both["own"], both["other"])))
    return sum(compared[1:], compared[0]) / len(compared) if compared else None


def _beyond(runs: Sequence[Evaluations], contrast: Contrast, model: str) -> Evidence | None:
    """The difference on a split less its mean on others, whose items are other ones: by the normal law."""
    splits = (contrast.split, *contrast.beyond)
    parts = [_of_runs(runs, dataclasses.replace(contrast, split=split), model) for split in splits]
    if any(part is None for part in parts):
        return None
    weights = np.array([1.0, *[-1 / len(contrast.beyond)] * len(contrast.beyond)])
    means, errors = np.array([part["difference"].agg(["mean", "sem"]) for part in parts]).T
    law = stats.norm(weights @ means, np.linalg.norm(weights * errors))
    return _normal(len(parts[0]), float(law.mean()), law, "normal law of mean changes")


def between_models(runs: Mapping[str, Sequence[Evaluations]], contrast: Contrast, seed: int) -> dict[str, Any]:
    """What the row of a claim that models differ has in the place of a mean's test; nothing of one model alone."""
    found = {model: _of_runs(own, contrast, model) for model, own in runs.items()}
    changes = pd.DataFrame({model: both["difference"] for model, both in found.items() if both is not None}).dropna()
    if min(changes.shape) < 2:
        return {"verdict": "not run"}
    rng = random_stream(seed, "claims", "between models", contrast.own, contrast.other)
    deviation, p = heterogeneity(changes.to_numpy().T, rng)
    row = {"estimate": deviation, "ci_low": math.nan, "ci_high": math.nan, "p": p}
    return row | {"p_method": "permutations of models", "verdict": "holds" if p <= 0.05 else "open"}


def _positions(runs: Sequence[Evaluations], contrast: Contrast, model: str, seed: int) -> Evidence | None:
    """Of answer positions: there is one request, so the conditions are two samples of letters, of all runs together."""
    sides = []
    for condition in (contrast.own, contrast.other):
        paths = [run.path("mcq", model, condition, "per_prompt.parquet") for run in runs]
        if None in paths:
            return None
        sides.append(sum(read_table(path, LETTER_COUNTS)[LETTER_COUNTS].to_numpy(int).sum(axis=0) for path in paths))
    rng = random_stream(seed, "claims", model, "positions", contrast.own, contrast.other)
    effect = total_variation_effect(*sides, rng)
    return Evidence(effect, "permutations of letters", *(total_variation(counts) for counts in sides))


def effects_by_model(runs: Mapping[str, Sequence[Evaluations]], contrast: Contrast, seed: int) -> dict[str, Evidence]:
    """The effect of a contrast in each model that has both conditions; ``runs`` by model, one for each training seed,
    whose differences of a family, prompt or item are averaged."""
    found = {}
    for model, own_runs in runs.items():
        valid = [_valid_share(run, model, contrast.split) for run in own_runs] if contrast.base_validity else []
        if any(not share >= contrast.base_validity for share in valid):
            continue
        if contrast.beyond:
            if difference := _beyond(own_runs, contrast, model):
                found[model] = difference
        elif contrast.axis == "mcq" and (positions := _positions(own_runs, contrast, model, seed)):
            found[model] = positions
        elif (mean := _of_runs(own_runs, contrast, model)) is not None:
            names = (seed, model, contrast.metric, contrast.split, contrast.own, contrast.other)
            means = float(mean["own"].mean()), float(mean["other"].mean())
            found[model] = evidence(mean["difference"].to_numpy(), names, UNITS[contrast.axis][0], means)
        elif recorded := _recorded(own_runs, contrast, model):
            found[model] = recorded
    return found


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
            row |= between_models(runs, contrast, seed) if contrast.quantifier == "differ" else {}
            labels = {"primary_metric": contrast.metric, "contrast": contrast.name, "split": contrast.split}
            sources = {
                run.sources.get((contrast.axis, model, name))
                for model, own in runs.items()
                for run in own
                for name in (contrast.own, contrast.other)
            }
            row |= {**labels, "margin": contrast.margin, "provenance": join_sources(sorted(filter(None, sources)))}
            row["effect"] = in_words(contrast, row)
        if claim.together:
            sides = [
                {model: side(own.effect, contrast) for model, own in by_model.items()}
                for contrast, by_model in zip(claim.contrasts, by_row, strict=True)
            ]
            row = together(rows, sides)
            rows.append(row | {"primary_metric": "", "contrast": "together", "split": "", "margin": math.nan})
        records += [{"id": claim.name, "claim": claim.text, **row, "paper": claim.paper} for row in rows]
    order = ["id", "claim", "effect", "primary_metric", "contrast", "split", "margin", "n_models", "own", "other"]
    order += ["estimate", "ci_low", "ci_high", "holds", "against", "open", "share_low", "share_high"]
    order += ["p", "p_method", "verdict", "paper", "provenance"]
    return pd.DataFrame(records)[order]


def in_words(contrast: Contrast, row: Mapping[str, Any]) -> str:
    """The effect of a contrast as a sentence of a paper has it: from what to what, and the interval of the change."""
    own, other, low, high = row["own"], row["other"], row["ci_low"], row["ci_high"]
    metric, place = METRICS[contrast.metric].column_title, PLACES.get(contrast.split, f" on {contrast.split}")
    if contrast.log_ratio:
        effect = f"{metric}{place}: {contrast.own} has {10 ** row['estimate']:.2f} times {contrast.other}'s"
        interval = f"95% {10**low:.2f} to {10**high:.2f}"
    elif contrast.quantifier == "differ":
        effect = f"{metric}{place}: the change by {contrast.own} differs between models by {row['estimate']:.3f}"
        interval = "standard deviation beyond chance"
    elif contrast.beyond:
        effect = f"{metric}{place} beyond other tasks: {contrast.own} less {contrast.other} {row['estimate']:+.3f}"
        interval = f"95% {low:+.3f} to {high:+.3f}"
    else:
        effect = f"{metric}{place}: {contrast.own} {own:.3f}, {contrast.other} {other:.3f}"
        if contrast.other == BASE:
            moved = "fell" if own < other else "rose"
            effect = f"{contrast.own}: {metric} {moved} from {other:.3f} to {own:.3f}{place}"
        interval = f"95% of the difference {low:+.3f} to {high:+.3f}"
    p = probability_text(row["p"])
    behind = [interval] if math.isfinite(low) or contrast.quantifier == "differ" else ["no interval"]
    behind += [f"p {p}" if p.startswith("<") else f"p = {p}"] if math.isfinite(row["p"]) else []
    models = f"; so in {row['holds']} of {row['n_models']} models" if row["n_models"] > 1 else ""
    return f"{effect} ({', '.join(behind)}){models}"


def _verdict(rows: pd.DataFrame) -> str:
    """One for a claim: that of all together, or how many of its parts have which."""
    whole = rows.loc[rows["contrast"] == "together", "verdict"]
    counts = rows["verdict"].value_counts()
    if len(whole) or len(counts) == 1:
        return (whole if len(whole) else rows["verdict"]).iloc[0]
    return ", ".join(f"{verdict} in {number} of {len(rows)}" for verdict, number in counts.items())


def claims_table(runs: Mapping[str, Sequence[Evaluations]], seed: int) -> Table | None:
    """The claims of the paper that these evaluations say something of; None without any."""
    records = claims_records(runs, seed)
    records = records[records["verdict"] != "not run"].reset_index(drop=True)
    verdicts = {name: _verdict(rows) for name, rows in records.groupby("id", sort=False)}
    parts = records[records["contrast"] != "together"]
    parts = parts.assign(first=~parts["id"].duplicated())
    columns = {
        "Claim": lambda row: f"{row.id}. {row.claim}" if row.first else "",
        "What these models show": lambda row: row.effect,
        "Verdict": lambda row: verdicts[row.id] if row.first else "",
        "The paper": lambda row: row.paper if row.first else "",
    }
    pairs = "One model: each line is its own test." if len(runs) == 1 else "Mean over models, the pairs of the test."
    note = (
        f"Numbers are means over families, prompts or items, so they differ from tables of medians. {pairs} Holds: the "
        "95% interval lies beyond the margin on the claim's side; contradicted: on the other; kept: the 90% interval "
        "lies within the margin; for most models: the interval of their share lies above one half; open: none of "
        "these. p and interval are of one test; of bits per byte and benchmark scores both are of the normal law with "
        "the bootstrap's interval. claims.csv has estimates, margins and models in columns. C16 is for the ablations."
    )
    table = records_table("claims", "What the paper claims, and what these models show", parts, columns, 1, note)
    return table and dataclasses.replace(table, frame=records)
