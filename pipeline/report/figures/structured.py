"""Figures of structured sampling: 2, 3 and 8 of the paper."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.config.params import CONDITIONS, METHODS
from pipeline.core.laws.families import FAMILIES
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import Prompt
from pipeline.report.figures.style import COLORS, STYLE, TARGET_COLOR, shared_legend

PANEL_COLUMNS = 3


def structured_bars(metrics: pd.DataFrame, models: Mapping[str, str]) -> Figure:
    """Figure 2: family-median normalised W1, held-out families left, unseen parameters right.

    Whiskers are 95% intervals; the dotted line is the perfect-sampler floor; a hatched
    bar is an undefined aggregate; an evaluation that was not run has no bar.
    """
    with plt.rc_context(STYLE):
        width = max(5.2, 1.6 + 1.1 * len(models))
        figure, axes = plt.subplots(1, 2, figsize=(width, 2.9), sharey=True, layout="constrained")
        titles = {"ood": "Held-out families (OOD)", "unseen": "Unseen parameters"}
        for axis, (split, title) in zip(axes, titles.items(), strict=True):
            chosen = metrics[
                (metrics["axis"] == "structured")
                & (metrics["split"] == split)
                & (metrics["family"] == "")
                & (metrics["metric"] == "wasserstein_1_normalised")
                & metrics["condition"].isin(CONDITIONS)
            ].set_index(["model", "condition"])
            _bars(axis, chosen, models)
            axis.set_title(title)
        axes[0].set_ylabel("family-median W1 / (Q95 − Q05)")
        handles, labels = axes[0].get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=len(unique))
    return figure


def _bars(axis: Axes, chosen: pd.DataFrame, models: Mapping[str, str]) -> None:
    finite = chosen["value"][np.isfinite(chosen["value"].astype(float))]
    height = float(finite.max()) if len(finite) else 1.0
    for offset, condition in enumerate(CONDITIONS):
        for position, model in enumerate(models):
            if (model, condition) not in chosen.index:
                continue
            cell = chosen.loc[(model, condition)]
            x = position + (offset - 1) * 0.27
            if not math.isfinite(cell["value"]):
                axis.bar(
                    x,
                    height,
                    0.25,
                    facecolor="none",
                    edgecolor=COLORS[condition],
                    hatch="////",
                    label=f"{condition} (undefined)",
                )
                continue
            axis.bar(x, cell["value"], 0.25, color=COLORS[condition], label=condition)
            if math.isfinite(cell["ci_low"]):
                axis.plot([x, x], [cell["ci_low"], cell["ci_high"]], color="#333333", linewidth=0.9)
            top = np.nanmax([cell["value"], cell["ci_high"]])
            axis.annotate(
                f"{cell['value']:.3f}",
                (x, top),
                ha="center",
                va="bottom",
                fontsize=6,
                xytext=(0, 1),
                textcoords="offset points",
                rotation=90 if len(models) > 2 else 0,
            )
    if len(chosen):
        floor = float(chosen["floor"].mean())
        axis.axhline(floor, color=TARGET_COLOR, linewidth=0.8, linestyle=":", label="perfect sampler")
    axis.set_xticks(
        range(len(models)),
        list(models.values()),
        rotation=20 if len(models) > 2 else 0,
        ha="right" if len(models) > 2 else "center",
    )
    axis.set_xlim(-0.6, len(models) - 0.4)


def sample_overlays(
    panels: Sequence[Prompt],
    samples: Mapping[str, Mapping[tuple[str, str], np.ndarray]],
    models: Mapping[str, str],
    conditions: Sequence[str],
) -> Figure:
    """Figures 3 and 8: the target law with the samples of each condition.

    Args:
        panels: One prompt per panel, three panels to a line.
        samples: ``samples[model][condition, prompt_id]``: valid samples.
        models: Model name -> display name, one block of lines each.
        conditions: At most three, in drawing order.
    """
    columns = min(len(panels), PANEL_COLUMNS)
    lines = -(-len(panels) // columns)
    with plt.rc_context(STYLE):
        size = (2.4 * columns, 1.9 * lines * len(models) + 0.4)
        figure, grid = plt.subplots(lines * len(models), columns, figsize=size, squeeze=False, layout="constrained")
        for number, model in enumerate(models):
            axes = grid[lines * number : lines * (number + 1)].flatten()
            drawn = samples.get(model, {})
            for axis, prompt in zip(axes, panels, strict=False):
                draws = {c: drawn[c, prompt.prompt_id] for c in conditions if (c, prompt.prompt_id) in drawn}
                (_pmf_panel if prompt.law.integer else _density_panel)(axis, prompt, draws)
                rendered = ", ".join(f"{name}={value:g}" for name, value in prompt.parameters.items())
                title = f"{FAMILIES[prompt.family].display_name}({rendered})"
                axis.set_title(title, fontsize=7 if len(title) < 36 else 6)
                axis.set_yticks([])
            for axis in axes[len(panels) :]:
                axis.set_axis_off()
            axes[0].set_ylabel(models[model])
        # A panel without samples of a condition has no handle for it.
        shared_legend(figure, grid.flatten())
    return figure


def _outside_note(axis: Axes, counts: Mapping[str, int]) -> None:
    shown = [f"{condition} {count}" for condition, count in counts.items() if count]
    if shown:
        axis.annotate(
            "outside: " + ", ".join(shown), (0.99, 0.97), xycoords="axes fraction", ha="right", va="top", fontsize=5.5
        )


def _density_panel(axis: Axes, prompt: Prompt, draws: Mapping[str, np.ndarray]) -> None:
    low, high = quantile(prompt.law, np.array([0.001, 0.995]))
    margin = 0.08 * (high - low)
    grid = np.linspace(max(low - margin, prompt.support[0]), min(high + margin, prompt.support[1]), 400)
    density = prompt.law.freeze().pdf(grid)
    axis.plot(grid, density, color=TARGET_COLOR, linewidth=1.1, label="target")
    bins = np.linspace(low - margin, high + margin, 31)
    peak = 0.0
    for condition, values in draws.items():
        heights = np.histogram(values, bins)[0] / max(1, len(values)) / np.diff(bins)
        axis.stairs(
            heights,
            bins,
            color=COLORS[condition],
            linewidth=0.9,
            label=condition,
            fill=condition == "base",
            alpha=0.5 if condition == "base" else 1.0,
        )
        peak = max(peak, float(heights.max()) if condition in METHODS else 0.0)
    finite = density[np.isfinite(density)]
    # A collapsed model would flatten everything else: the axis follows the target and the fine-tuned models.
    axis.set_ylim(0, 1.6 * max(peak, float(np.quantile(finite, 0.98))))
    axis.set_xlim(bins[0], bins[-1])
    _outside_note(axis, {c: int(((v < bins[0]) | (v > bins[-1])).sum()) for c, v in draws.items()})


def _pmf_panel(axis: Axes, prompt: Prompt, draws: Mapping[str, np.ndarray]) -> None:
    low, high = (int(value) for value in quantile(prompt.law, np.array([0.001, 0.999])))
    support = np.arange(low, high + 1)
    axis.plot(support, prompt.law.freeze().pmf(support), "o", color=TARGET_COLOR, markersize=2.5, label="target")
    for offset, (condition, values) in enumerate(draws.items()):
        shares = np.array([(values == value).sum() for value in support]) / max(1, len(values))
        axis.bar(support + (offset - 1) * 0.26, shares, 0.25, color=COLORS[condition], label=condition)
    _outside_note(axis, {c: int(((v < low) | (v > high)).sum()) for c, v in draws.items()})
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
