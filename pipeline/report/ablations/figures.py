"""Figure 14, samples by the precision of the strings trained on, and the interactive figures of Tables 24 to 26."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.axes.structured.figures import law_panels, overlay_prompts
from pipeline.config.params import Params
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import Prompt
from pipeline.record.provenance import split_sources
from pipeline.report.ablations.runs import (
    CONSTRUCTED,
    HARD_ABLATION,
    SOFT_GRANULARITY,
    Ablations,
    Block,
    Design,
    block_titles,
)
from pipeline.report.ablations.tables import HEADLINE, KL, SPLIT_HEADINGS, ablation_records
from pipeline.report.figures.drawing import COLORS, FAMILY_COLORS, TARGET_COLOR, Drawing
from pipeline.report.page.plots import SYMBOLS, Plot, band, vertical_line

SELECTED_STRINGS = 1001
LINE_STYLES = ("-", "--", "-.", ":")
Draws = Mapping[int, Mapping[str, np.ndarray]]
"""Valid samples by decimals and prompt_id."""
DRAWN_METRICS = {HEADLINE: ("W1", "normalised W1"), KL: ("KL", "logit KL (nats)")}
"""Metrics drawn: short name and title of the axis. Of both, lower is better."""
LABELS = {2: "decimals/most strings", 4: "decimals/most strings, draws per prompt and epoch×epochs"}
"""What the labels of settings are, by the number of factors."""
ROW_PIXELS = 26
SHORT_TITLES = {
    "num_decimals": "{} decimals",
    "max_bins": "{} strings",
    "samples_per_prompt": "{} draws",
    "epochs": "{} epochs",
}


def ablation_drawings(ablations: Ablations, params: Params, prompts: Sequence[Prompt]) -> dict[str, Drawing]:
    """Figure 14 by its file name, where there are runs.

    Args:
        ablations: What the sweeps have finished.
        params: The parameters, for display names.
        prompts: Structured prompts; one per held-out family is shown.
    """
    found = discretisation_overlays(ablations.soft, params, prompts)
    return {} if found is None else {"figure14": found}


def ablation_plots(ablations: Ablations, params: Params) -> list[Plot]:
    """The interactive figures, in the order of the tables."""
    soft = ablation_records(SOFT_GRANULARITY, ablations.soft, params, {})
    hard = ablation_records(HARD_ABLATION, ablations.hard, params, {})
    return [
        *construction_plots(ablations.construction),
        *setting_plots("table25", "Soft targets by string granularity", SOFT_GRANULARITY, soft),
        *setting_plots("table26", "Hard targets by strings and budget", HARD_ABLATION, hard),
    ]


def samples_by_decimals(block: Block, max_bins: int | None) -> dict[int, dict[str, np.ndarray]]:
    """Valid samples of all seeds together: ``samples[num_decimals][prompt_id]``, float64[n].

    Args:
        block: Runs of SOFT_GRANULARITY.
        max_bins: The largest number of strings of the runs to take.
    """
    found: dict[int, dict[str, list[np.ndarray]]] = {}
    condition = SOFT_GRANULARITY.condition
    for (num_decimals, bins), runs in sorted(block.runs.items(), key=str):
        if bins != max_bins or num_decimals is None:
            continue
        for run in runs:
            samples = run.evaluations.samples([block.model], [condition]).get(block.model, {})
            for (_, prompt_id), values in samples.items():
                found.setdefault(num_decimals, {}).setdefault(prompt_id, []).append(values)
    return {
        decimals: {prompt_id: np.concatenate(parts) for prompt_id, parts in members.items()}
        for decimals, members in sorted(found.items())
    }


def overlaid_strings(block: Block) -> int | None:
    """The number of strings at which decimals are compared: the selected one, else the one with the most decimals."""
    decimals: dict[int | None, set] = {}
    for num_decimals, bins in block.runs:
        decimals.setdefault(bins, set()).add(num_decimals)
    if len(decimals.get(SELECTED_STRINGS, ())) > 1:
        return SELECTED_STRINGS
    return max(sorted(decimals, key=str), key=lambda bins: len(decimals[bins]))


def discretisation_overlays(blocks: Sequence[Block], params: Params, prompts: Sequence[Prompt]) -> Drawing | None:
    """Figure 14; None where there is no run.

    Args:
        blocks: Runs of SOFT_GRANULARITY.
        params: The parameters, for display names.
        prompts: Structured prompts; one per held-out family is shown.
    """
    shown = overlay_prompts(prompts)
    drawn = {}
    for block, title in zip(blocks, block_titles(blocks, params), strict=True):
        if block.runs:
            bins = overlaid_strings(block)
            drawn[title] = (samples_by_decimals(block, bins), bins)
    if not shown or not any(samples for samples, _ in drawn.values()):
        return None
    strings = "; ".join(f"{title}: at most {'all' if bins is None else bins}" for title, (_, bins) in drawn.items())
    caption = (
        "Figure 14. Held-out laws (black) with samples of soft-target models by the number of decimals that they were "
        f"trained on, all seeds together; samples outside a panel are not drawn. Strings per law: {strings}."
    )
    prompt_ids = {prompt.prompt_id for prompt in shown}
    samples_shown = {
        title: {
            decimals: {key: values for key, values in members.items() if key in prompt_ids}
            for decimals, members in samples.items()
        }
        for title, (samples, _) in drawn.items()
    }
    return Drawing(precision_panels, (shown, samples_shown), caption)


def precision_panels(prompts: Sequence[Prompt], blocks: Mapping[str, Draws]) -> Figure:
    """One panel per prompt and block: the target law and an outline per number of decimals.

    Args:
        prompts: One per panel.
        blocks: Samples by the title of their block.
    """
    decimals = sorted({number for samples in blocks.values() for number in samples})

    def draw(panel: Axes, prompt: Prompt, samples: Draws) -> None:
        bins = _draw_target(panel, prompt)
        for place, number in enumerate(decimals):
            values = samples.get(number, {}).get(prompt.prompt_id)
            if values is not None and len(values):
                _outline(panel, values, bins, place, number)
        panel.set_xlim(bins[0], bins[-1])
        panel.set_ylim(bottom=0)

    return law_panels(prompts, list(blocks.items()), draw)


def _draw_target(panel: Axes, prompt: Prompt) -> np.ndarray:
    """The target law; returns the ends of the bins that samples are counted in."""
    low, high = (float(value) for value in quantile(prompt.law, np.array([0.001, 0.995])))
    frozen = prompt.law.freeze()
    if prompt.law.integer:
        bins = np.arange(np.floor(low) - 0.5, np.ceil(high) + 1.0)
        support = (bins[:-1] + bins[1:]) / 2
        panel.plot(support, frozen.pmf(support), "o", color=TARGET_COLOR, markersize=2.5, label="target")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        return bins
    grid = np.linspace(low, high, 400)
    panel.plot(grid, frozen.pdf(grid), color=TARGET_COLOR, linewidth=1.1, label="target")
    # Without a bound a density that is infinite at its end would flatten everything else.
    panel.set_ylim(top=1.9 * float(np.quantile(frozen.pdf(grid), 0.98)))
    return np.linspace(low, high, 25)


def _outline(panel: Axes, values: np.ndarray, bins: np.ndarray, place: int, decimals: int) -> None:
    """Samples as an outline; heights are shares of all of them, also of those outside the bins."""
    panel.stairs(
        np.histogram(values, bins)[0] / len(values) / np.diff(bins),
        bins,
        color=FAMILY_COLORS[place % len(FAMILY_COLORS)],
        linewidth=1.0,
        linestyle=LINE_STYLES[place % len(LINE_STYLES)],
        label=f"{decimals} decimal{'s' if decimals != 1 else ''}",
    )


def setting_label(record: Mapping[str, Any], design: Design) -> str:
    """A setting in words, e.g. "5 decimals, 1001 strings"."""
    parts = []
    for key in design.factors:
        value = record[key]
        parts.append(SHORT_TITLES[key.rpartition(".")[2]].format("all" if pd.isna(value) else int(value)))
    return ", ".join(parts)


def short_label(record: Mapping[str, Any], design: Design) -> str:
    """A setting on an axis: decimals/strings, then draws x epochs, e.g. "5/16384, 16×2"."""
    values = ["all" if pd.isna(record[key]) else f"{int(record[key])}" for key in design.factors]
    return ", ".join(["/".join(values[:2]), *(["×".join(values[2:])] if values[2:] else [])])


def setting_plots(name: str, title: str, design: Design, records: pd.DataFrame) -> list[Plot]:
    """One figure per block, metric and split that has any value.

    Args:
        name: Identifier of the table.
        title: Heading; the block's name and the split are added.
        design: What was varied.
        records: Table of ``ablation_records``.
    """
    plots = []
    defined = records[records["mean"].notna()] if len(records) else records
    for number, (block, members) in enumerate(defined.groupby("display_name", sort=False) if len(defined) else ()):
        for metric, (short, unit) in DRAWN_METRICS.items():
            for split, split_title in SPLIT_HEADINGS.items():
                chosen = members[(members["metric"] == metric) & (members["split"] == split)]
                if len(chosen):
                    rows = chosen.to_dict("records")
                    figure = {"data": _traces(rows, design), "layout": _layout(rows, design, unit)}
                    sources = list(dict.fromkeys(path for row in rows for path in split_sources(row["provenance"])))
                    heading = f"{title}: {block}, {short}, {split_title}"
                    plots.append(
                        Plot(f"{name}-{number}-{short}-{split}", heading, figure, _note(rows, design), sources)
                    )
    return plots


def _traces(rows: Sequence[Mapping[str, Any]], design: Design) -> list[dict[str, Any]]:
    """The seeds' values and the means with their standard deviation, one place per setting."""
    color = COLORS[design.condition]
    points = [
        (float(value), place, seed)
        for place, row in enumerate(rows)
        for seed, _, value in (item.partition(":") for item in row["values"].split())
    ]
    texts = [
        f"{setting_label(row, design)}<br>mean {row['mean']:.4f} of {row['seeds']} seeds<br>{row['verdict']}"
        for row in rows
    ]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "one seed",
            "x": [x for x, _, _ in points],
            "y": [y for _, y, _ in points],
            "text": [f"seed {seed}: {x:.4f}" for x, _, seed in points],
            "hoverinfo": "text",
            "marker": {"color": "muted", "symbol": "circle-open", "size": 7},
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "mean ± standard deviation",
            "x": [row["mean"] for row in rows],
            "y": list(range(len(rows))),
            "text": texts,
            "hoverinfo": "text",
            "marker": {"color": color, "symbol": SYMBOLS[design.condition], "size": 9},
            "error_x": {
                "type": "data",
                "color": color,
                "thickness": 2,
                "width": 0,
                "array": [row["deviation"] if math.isfinite(row["deviation"]) else None for row in rows],
            },
        },
    ]


def _layout(rows: Sequence[Mapping[str, Any]], design: Design, unit: str) -> dict[str, Any]:
    """Axes, the perfect sampler's value, and the band of differences that seed noise explains."""
    count, best = len(rows), min(row["mean"] for row in rows)
    # Margins differ where numbers of seeds do; the widest is shown and each point's text has its verdict.
    margin = max((row["margin"] for row in rows if math.isfinite(row["margin"])), default=math.nan)
    floor = sum(row["floor"] for row in rows) / count
    shapes = [band(best, best + margin)] if math.isfinite(margin) else []
    shapes += [vertical_line(floor, dash="dot")] if math.isfinite(floor) else []
    return {
        "height": 90 + count * ROW_PIXELS,
        "xaxis": {"title": {"text": unit}, "rangemode": "tozero", "nticks": 5},
        "yaxis": {
            "tickvals": list(range(count)),
            "ticktext": [short_label(row, design) for row in rows],
            "range": [count - 0.4, -0.6],
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
        "shapes": shapes,
    }


def _note(rows: Sequence[Mapping[str, Any]], design: Design) -> str:
    verdicts = [row["verdict"] for row in rows]
    if "seed noise unknown" in verdicts or len(rows) == 1:
        noise = "No statement on seed noise: it takes two settings and a setting with two seeds."
    else:
        noise = (
            f"Grey: differences to the best setting that seed noise explains. Beyond it: "
            f"{verdicts.count('beyond seed noise')} of {len(rows)}."
        )
    floor = "Dotted: a perfect sampler. " if any(math.isfinite(row["floor"]) for row in rows) else ""
    return f"Settings: {LABELS[len(design.factors)]}. {floor}{noise}"


def construction_plots(records: pd.DataFrame) -> list[Plot]:
    """Mean time and largest peak over the largest number of strings, one line per number of decimals."""
    bounded = records.dropna(subset=["max_bins"]) if len(records) else records
    plots = []
    for tokenizer, members in bounded.groupby("tokenizer", sort=False) if len(bounded) else ():
        for suffix, unit, factor, title in (
            ("mean_seconds", "mean time per prompt (ms)", 1e3, "Time to build"),
            ("peak_bytes", "largest peak (MB)", 1e-6, "Memory to build"),
        ):
            traces = [
                _construction_line(part, int(decimals), place, line, line[f"{part}_{suffix}"] * factor)
                for part in CONSTRUCTED
                for place, (decimals, line) in enumerate(members.groupby("num_decimals"))
            ]
            ticks = sorted(int(value) for value in members["max_bins"].unique())
            layout = {
                "height": 300,
                "xaxis": {
                    "title": {"text": "most strings"},
                    "type": "log",
                    "tickvals": ticks,
                    "ticktext": [f"{value:,}" for value in ticks],
                },
                "yaxis": {"title": {"text": unit}, "type": "log", "dtick": "D2", "tickformat": ",~g"},
            }
            note = (
                f"Tokenizer {tokenizer}, {members['prompts'].max()} training prompts. Full: output space; dashed: "
                "trie. Both axes are logarithmic."
            )
            sources = [path for paths in members["provenance"] for path in split_sources(paths)]
            name = f"construction-{suffix.partition('_')[0]}-{tokenizer}"
            plots.append(Plot(name, title, {"data": traces, "layout": layout}, note, sources))
    return plots


def _construction_line(
    part: str, num_decimals: int, place: int, line: pd.DataFrame, values: pd.Series
) -> dict[str, Any]:
    color = FAMILY_COLORS[place % len(FAMILY_COLORS)]
    unit = "decimal" if num_decimals == 1 else "decimals"
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"{CONSTRUCTED[part]}, {num_decimals} {unit}",
        "x": [int(value) for value in line["max_bins"]],
        "y": [float(value) for value in values],
        "line": {"color": color, "dash": "solid" if part == "output_space" else "dash"},
        "marker": {"color": color, "size": 7, "symbol": ("circle", "triangle-up", "square", "diamond")[place % 4]},
        "hovertemplate": "%{x:,} strings: %{y:.3g}<extra>%{fullData.name}</extra>",
    }
