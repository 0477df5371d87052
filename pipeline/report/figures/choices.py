"""Which models and prompts the pictures show, and the sentences at the top of the page."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.config.params import CONDITIONS
from pipeline.core.prompts.structured import Prompt
from pipeline.report.tables.retention import GP_IRT, paloma_measures
from pipeline.report.tables.retention_lists import verdict_sentence
from pipeline.report.tables.table import Measure
from pipeline.report.tables.transfer import SUPPORT_SIZE, TOTAL_VARIATION, UTILITY, utility_measure


def overlay_panels(prompts: Sequence[Prompt]) -> list[Prompt]:
    """One held-out prompt per family: the middle one of its settings."""
    families: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        families.setdefault(prompt.family, []).append(prompt)
    return [members[len(members) // 2] for members in families.values()]


def _held_out(metrics: pd.DataFrame, conditions: Sequence[str]) -> pd.Series:
    """Lowest defined OOD W1 over the conditions by model, best first."""
    chosen = metrics[
        (metrics["axis"] == "structured")
        & (metrics["split"] == "ood")
        & (metrics["family"] == "")
        & (metrics["metric"] == "wasserstein_1_normalised")
        & metrics["condition"].isin(conditions)
    ]
    return chosen.groupby("model", sort=False)["value"].min().sort_values(kind="stable")


def overlay_models(tokenizers: Mapping[str, str], metrics: pd.DataFrame, limit: int = 4) -> list[str]:
    """The model with the lowest OOD W1 of each tokenizer, best first.

    Args:
        tokenizers: Model name -> tokenizer name; stands for the model's family.
        metrics: The tidy metrics table.
        limit: Most models.
    """
    picked: dict[str, str] = {}
    for model in _held_out(metrics, CONDITIONS).index:
        if model in tokenizers:
            picked.setdefault(tokenizers[model], model)
    return list(picked.values())[:limit]


def best_ssot_model(models: Sequence[str], metrics: pd.DataFrame) -> str | None:
    """The model with the lowest defined OOD W1 under SSOT, else the first with any; None where there is none."""
    ranked = [model for model in _held_out(metrics, ("ssot",)).index if model in models]
    return ranked[0] if ranked else None


def _medians(metrics: pd.DataFrame, measure: Measure) -> dict[str, float]:
    """Median over the models with a defined value, by condition."""
    chosen = metrics[
        (metrics["axis"] == measure.axis)
        & (metrics["split"] == measure.split)
        & (metrics["family"] == "")
        & (metrics["metric"] == measure.metric)
    ]
    medians = chosen.groupby("condition")["value"].median()
    found = {condition: float(medians[condition]) for condition in CONDITIONS if condition in medians}
    return {condition: value for condition, value in found.items() if math.isfinite(value)}


def _listed(medians: Mapping[str, float], decimals: int) -> str:
    return ", ".join(f"{condition} {value:.{decimals}f}" for condition, value in medians.items())


def headline(metrics: pd.DataFrame, tests: Mapping[str, pd.DataFrame] | None = None) -> str:
    """One sentence per axis (structured: per split): the median over models by condition.

    An axis is left out where base is undefined or was not run.

    Args:
        metrics: The tidy metrics table.
        tests: Axis -> tests against base, columns condition and verdict; their verdicts are counted.
    """
    sentences = []
    for split, name in (("ood", "held-out families"), ("unseen", "unseen parameters")):
        medians = _medians(metrics, Measure("wasserstein_1_normalised", "", 3, True, split=split))
        chosen = metrics[(metrics["axis"] == "structured") & (metrics["split"] == split) & (metrics["family"] == "")]
        floors = chosen[(chosen["metric"] == "wasserstein_1_normalised") & chosen["condition"].isin(CONDITIONS)]
        if "base" in medians:
            sentences.append(
                f"On {name}, normalised W1 is {_listed(medians, 3)}; a perfect sampler scores "
                f"{floors['floor'].median():.3f}."
            )
    utility = utility_measure(metrics, "all")
    stand_in = " by a stand-in evaluator, not the benchmark's" if utility.metric == UTILITY[True] else ""
    bits_per_byte = paloma_measures(metrics)[1]
    for measure, sentence in (
        (SUPPORT_SIZE, "For an open-ended random answer, 90% of the first token's probability is on {} tokens."),
        (TOTAL_VARIATION, "The correct option's position in multiple-choice questions is off uniform by a TV of {}."),
        (utility, f"NoveltyBench utility{stand_in} is {{}}."),
        (GP_IRT, "Accuracy on TinyBenchmarks, as gp-IRT estimates it, is {}."),
        (bits_per_byte, "Held-out text costs {} bits per byte."),
    ):
        medians = _medians(metrics, measure)
        if "base" in medians:
            sentences.append(sentence.format(_listed(medians, measure.decimals)))
        if tests and measure in (GP_IRT, bits_per_byte):
            sentences.append(verdict_sentence(measure.axis, tests[measure.axis]))
    return " ".join(filter(None, sentences)) or "No evaluation has been run yet."
