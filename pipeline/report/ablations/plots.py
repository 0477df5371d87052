"""Interactive figures of Tables 25 and 26: every seed's value beside the range that seed noise explains."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.record.table_cell import split_sources
from pipeline.report.ablations.cells import Design
from pipeline.report.ablations.tables import HEADLINE, KL, SPLITS
from pipeline.report.figures.drawing import COLORS
from pipeline.report.page.plots import SYMBOLS, Plot

METRICS = {HEADLINE: ("W1", "normalised W1"), KL: ("KL", "logit KL (nats)")}
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


def ablation_plots(name: str, title: str, design: Design, records: pd.DataFrame) -> list[Plot]:
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
        for metric, (short, unit) in METRICS.items():
            for split, split_title in SPLITS.items():
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
    shapes = []
    # Margins differ where numbers of seeds do; the widest is shown and each point's text has its verdict.
    margin = max((row["margin"] for row in rows if math.isfinite(row["margin"])), default=math.nan)
    if math.isfinite(margin):
        shapes.append(
            {
                "type": "rect",
                "x0": best,
                "x1": best + margin,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "fillcolor": "rgba(128,128,128,0.22)",
                "line": {"width": 0},
                "layer": "below",
            }
        )
    floor = sum(row["floor"] for row in rows) / count
    if math.isfinite(floor):
        shapes.append(
            {
                "type": "line",
                "x0": floor,
                "x1": floor,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": "ink", "width": 1, "dash": "dot"},
            }
        )
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
