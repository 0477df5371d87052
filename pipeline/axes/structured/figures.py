"""Figures of structured sampling: 2 to 8 of the paper."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from pipeline.config.evaluation import BASELINES
from pipeline.config.params import BASE
from pipeline.core.laws.families import FAMILIES
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import Prompt
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.figures.drawing import (
    STYLE,
    TARGET_COLOR,
    Drawing,
    condition_colors,
    condition_markers,
    law_title,
    panel_grid,
    shared_legend,
    side_by_side,
)

W1, WASSERSTEIN, KL = "wasserstein_1_normalised", "wasserstein_1_normalised_prompt_median", "logit_kl_nats"
LABELS = {WASSERSTEIN: "median W1 / (Q95 − Q05)", KL: "logit KL (nats)"}
FAMILY_FIGURES = {
    "figure4": (WASSERSTEIN, "ood", "Figure 4. Median normalised W1 of each held-out distribution"),
    "figure5": (KL, "ood", "Figure 5. Logit KL of each held-out distribution"),
    "figure6": (KL, "unseen", "Figure 6. Logit KL at unseen parameters of each distribution"),
    "figure7": (WASSERSTEIN, "unseen", "Figure 7. Median normalised W1 at unseen parameters of each distribution"),
}
SPLIT_TITLES = {"ood": "Held-out families (OOD)", "unseen": "Unseen parameters"}
POINTS = (
    "95% intervals resample prompts and samples. Logarithmic, each panel with its own axis. Cross at the top: "
    "undefined, no valid answer. Dotted: a perfect sampler of as many answers."
)
CAPTIONS = {
    WASSERSTEIN: f"Median over the distribution's prompts that have a valid answer, every model by itself. {POINTS}",
    KL: (
        "Mean over the distribution's prompts, every model by itself. 95% intervals resample prompts; none of a single "
        "one. Logarithmic, each panel with its own axis."
    ),
}
SSOT_CONDITIONS = ("base", "ssot", "soft")
SSOT_MODEL = "gpt_oss_20b"
"""The model that the paper's Figure 8 is of."""
SSOT_FAMILIES = ("bernoulli", "poisson", "weibull", "truncnorm")
"""Held-out families in Figure 8. The paper has four and its text does not say which: these are yes or no, counts, a
half-line and an interval."""


def overlay_prompts(prompts: Sequence[Prompt]) -> list[Prompt]:
    """One held-out prompt per family: the middle one of its settings."""
    families: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        if prompt.split == "ood":
            families.setdefault(prompt.family, []).append(prompt)
    return [members[len(members) // 2] for members in families.values()]


def overlay_models(tokenizers: Mapping[str, str], conditions: Sequence[str], metrics: pd.DataFrame) -> list[str]:
    """The models with the lowest OOD W1 of each tokenizer (it stands for a family), best first, at most four."""
    rows = rows_of(metrics, axis="structured", split="ood", family="", metric="wasserstein_1_normalised")
    rows = rows[rows["condition"].isin(conditions) & rows["model"].isin(tokenizers)]
    models = rows.groupby("model", sort=False)["value"].min().sort_values(kind="stable").index
    return models[~models.map(tokenizers).duplicated()].tolist()[:4]


def ssot_model(models: Sequence[str], metrics: pd.DataFrame) -> str | None:
    """SSOT_MODEL where it was asked under SSOT, else the first of the models that was; None where none was."""
    asked = set(rows_of(metrics, axis="structured", condition="ssot", family="")["model"])
    return next((model for model in (SSOT_MODEL, *models) if model in asked and model in models), None)


def structured_drawings(context: ReportContext) -> dict[str, Drawing]:
    """Figures 2 to 8 by file name, each drawn where it has something to show."""
    names, conditions = context.names, context.conditions
    rows = rows_of(context.metrics, axis="structured")
    rows = rows[rows["condition"].isin(conditions)]
    aggregates = rows_of(rows, family="", metric=W1)
    parts = {title: rows_of(aggregates, split=split) for split, title in SPLIT_TITLES.items()}
    drawings = {
        "figure2": Drawing(
            interval_panels,
            (parts, names, conditions, "family-median W1 / (Q95 − Q05)", 2.0),
            f"Figure 2. Normalised W1, the median over families. {POINTS}",
        )
    }
    overlaid, tokenizers = overlay_prompts(context.prompts), {n: m.tokenizer for n, m in context.params.models.items()}
    samples = context.evaluations.samples(overlay_models(tokenizers, conditions, context.metrics), conditions)
    drawings["figure3"] = Drawing(
        sample_overlays,
        (overlaid, samples, {model: names[model] for model in samples}, conditions),
        "Figure 3. Held-out laws (black) with samples of each condition.",
    )
    for name, (metric, split, title) in FAMILY_FIGURES.items():
        prompts = [prompt for prompt in context.prompts if prompt.split == split]
        of_metric = rows_of(rows, split=split, metric=metric)
        parts = {_family_title(family, prompts): rows_of(of_metric, family=family) for family in FAMILIES}
        arguments = (parts, names, conditions, LABELS[metric])
        drawings[name] = Drawing(interval_panels, arguments, f"{title}. {CAPTIONS[metric]}")
    if (model := ssot_model(list(names), context.metrics)) is not None:
        compared = [condition for condition in SSOT_CONDITIONS if condition in (*conditions, "ssot")]
        shown = [prompt for prompt in overlaid if prompt.family in SSOT_FAMILIES] or overlaid[: len(SSOT_FAMILIES)]
        which = "" if model == SSOT_MODEL else " (the paper's is of GPT-OSS-20B)"
        drawings["figure8"] = Drawing(
            sample_overlays,
            (shown, context.evaluations.samples([model], compared), {model: names[model]}, compared),
            f"Figure 8. Laws of Figure 3 (black) with samples of {', '.join(compared)}; ssot is String Seed of "
            f"Thought: {names[model]}{which}.",
        )
    return drawings


def sample_overlays(
    prompts: Sequence[Prompt],
    samples: Mapping[str, Mapping[tuple[str, str], np.ndarray]],
    models: Mapping[str, str],
    conditions: Sequence[str],
) -> Figure | None:
    """Figures 3 and 8: the target law with the valid samples, by model, then by condition and prompt_id: a panel a
    prompt, a block of lines a model."""
    if not (prompts and samples):
        return None
    # Four as a square, else three to a line.
    columns = 2 if len(prompts) == 4 else min(len(prompts), 3)
    lines, colors = -(-len(prompts) // columns), condition_colors(conditions)
    with plt.rc_context(STYLE):
        size = (2.4 * columns, 1.9 * lines * len(models) + 0.4)
        figure, grid = plt.subplots(lines * len(models), columns, figsize=size, squeeze=False, layout="constrained")
        for number, (model, name) in enumerate(models.items()):
            panels, own = grid[lines * number : lines * (number + 1)].flatten(), samples.get(model, {})
            for panel, prompt in zip(panels, prompts, strict=False):
                draws = {c: own[c, prompt.prompt_id] for c in conditions if (c, prompt.prompt_id) in own}
                (_pmf_panel if prompt.law.integer else _density_panel)(panel, prompt, draws, colors)
                title = law_title(prompt)
                panel.set_title(title, fontsize=7 if len(title) < 36 else 6)
                panel.set_yticks([])
            for panel in panels[len(prompts) :]:
                panel.set_axis_off()
            panels[0].set_ylabel(name)
        # A panel without samples of a condition has no handle for it.
        shared_legend(figure, grid.flatten())
    return figure


def _outside_note(panel: Axes, draws: Mapping[str, np.ndarray], low: float, high: float) -> None:
    counts = {condition: int(((values < low) | (values > high)).sum()) for condition, values in draws.items()}
    shown = [f"{condition} {count}" for condition, count in counts.items() if count]
    if shown:
        text = "outside: " + ",\n".join(", ".join(shown[start : start + 3]) for start in range(0, len(shown), 3))
        panel.annotate(text, (0.99, 0.97), xycoords="axes fraction", ha="right", va="top", fontsize=5.5)


def _density_panel(panel: Axes, prompt: Prompt, draws: Mapping[str, np.ndarray], colors: Mapping[str, str]) -> None:
    low, high = quantile(prompt.law, np.array([0.001, 0.995]))
    margin = 0.08 * (high - low)
    grid = np.linspace(max(low - margin, prompt.support[0]), min(high + margin, prompt.support[1]), 400)
    density = prompt.law.freeze().pdf(grid)
    panel.plot(grid, density, color=TARGET_COLOR, linewidth=1.1, label="target")
    bins, peak = np.linspace(low - margin, high + margin, 31), 0.0
    for condition, values in draws.items():
        heights = np.histogram(values, bins)[0] / max(1, len(values)) / np.diff(bins)
        look = {"fill": True, "alpha": 0.5} if condition == "base" else {}
        panel.stairs(heights, bins, color=colors[condition], linewidth=0.9, label=condition, **look)
        if condition not in (BASE, *BASELINES):
            peak = max(peak, float(heights.max()))
    # A collapsed model would flatten everything else: the axis follows the target and the fine-tuned models.
    panel.set_ylim(0, 1.6 * max(peak, float(np.quantile(density[np.isfinite(density)], 0.98))))
    panel.set_xlim(bins[0], bins[-1])
    _outside_note(panel, draws, bins[0], bins[-1])


def _pmf_panel(panel: Axes, prompt: Prompt, draws: Mapping[str, np.ndarray], colors: Mapping[str, str]) -> None:
    low, high = (int(value) for value in quantile(prompt.law, np.array([0.001, 0.999])))
    support, number = np.arange(low, high + 1), max(3, len(draws))
    panel.plot(support, prompt.law.freeze().pmf(support), "o", color=TARGET_COLOR, markersize=2.5, label="target")
    for shift, (condition, values) in zip(side_by_side(number, 0.26), draws.items(), strict=False):
        shares = np.array([(values == value).sum() for value in support]) / max(1, len(values))
        panel.bar(support + shift, shares, 0.75 / number, color=colors[condition], label=condition)
    _outside_note(panel, draws, low, high)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def interval_panels(
    parts: Mapping[str, pd.DataFrame],
    models: Mapping[str, str],
    conditions: Sequence[str],
    label: str,
    height: float = 1.35,
) -> Figure | None:
    """Figures 2 and 4 to 7: a panel of ``height`` inches for the rows of each part, by its title."""
    parts = {title: rows for title, rows in parts.items() if rows["model"].isin(models).any()}
    shown = [model for model in models if any((rows["model"] == model).any() for rows in parts.values())]
    if not shown:
        return None
    columns = min(len(parts), 3 if len(parts) <= 6 else 4)
    names, many = [models[model] for model in shown], len(shown) > 2
    with plt.rc_context(STYLE):
        width = max(1.8, 0.7 + 0.16 * len(shown))
        figure, panels = panel_grid(len(parts), columns, width, height, 0.9 + 0.4 * many, sharex=True)
        for place, (panel, (title, rows)) in enumerate(zip(panels, parts.items(), strict=True)):
            _interval_panel(panel, rows[rows["model"].isin(shown)], shown, conditions)
            panel.set_title(title, fontsize=7)
            # The panel below may be one of those that are off: the lowest of each column carries the names.
            panel.tick_params(axis="x", length=0, labelbottom=place + columns >= len(parts))
        for panel in panels[-columns:]:
            panel.set_xticks(range(len(names)), names, rotation=90 if many else 0, fontsize=6.5, parse_math=False)
        panels[0].set_xlim(-0.6, len(names) - 0.4)
        figure.supylabel(label, fontsize=8)
        shared_legend(figure, panels, most_columns=4)
    return figure


def _family_title(family: str, prompts: Sequence[Prompt]) -> str:
    own = [prompt for prompt in prompts if prompt.family == family]
    if len(own) != 1:
        name = FAMILIES[family].display_name
        return f"{name} ({len(own)} settings)" if own else name
    title = law_title(own[0])
    return title if len(title) <= 25 else title.replace("(", "\n(", 1)


def _interval_panel(panel: Axes, rows: pd.DataFrame, models: Sequence[str], conditions: Sequence[str]) -> None:
    """Points with intervals: one artist per condition, because a figure may have a thousand of them."""
    colors, markers = condition_colors(conditions), condition_markers(conditions)
    for shift, condition in zip(side_by_side(len(conditions), 0.24), conditions, strict=True):
        own, color = rows[rows["condition"] == condition], colors[condition]
        x = own["model"].map(models.index).to_numpy(float) + shift
        value, low, high = (own[name].to_numpy(float) for name in ("value", "ci_low", "ci_high"))
        drawn, undefined = np.isfinite(value) & (value > 0), ~np.isfinite(value)
        panel.plot(x[drawn], value[drawn], markers[condition], color=color, markersize=3, label=condition)
        # A lower end of 0 has no place on a logarithmic axis: the line then ends where the axis does.
        bounded = drawn & np.isfinite(low)
        panel.vlines(x[bounded], np.maximum(low, value * 1e-2)[bounded], high[bounded], color=color, linewidth=0.9)
        if undefined.any():
            look = {"color": color, "markersize": 4, "label": f"{condition} (undefined)"}
            top = np.full(undefined.sum(), 0.95)
            panel.plot(x[undefined], top, "x", transform=panel.get_xaxis_transform(), **look)
    floors = rows["floor"].dropna()
    if len(floors):
        look = {"color": TARGET_COLOR, "linewidth": 0.8, "linestyle": ":", "label": "perfect sampler"}
        panel.axhline(float(floors.median()), **look)
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(numticks=5))
    # Two dozen panels with eight minor ticks per decade would take most of the time that the figure takes.
    panel.yaxis.set_minor_locator(NullLocator())
    panel.tick_params(axis="y", labelsize=6.5)
    # At least two labelled decades, so that its numbers can be read.
    low, high = panel.get_ylim()
    if math.isfinite(low) and low > 0:
        panel.set_ylim(10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high)))
