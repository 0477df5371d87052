"""Seconds of a soft step against paths per prompt, a panel for each model."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.artifacts.atomic import atomic_path
from pipeline.report.figures.drawing import COLORS, STYLE, panel_grid, plt, shared_legend

CURVES = {"plain": ("#D55E00", "s"), "ours": (COLORS["soft"], "o"), "limit": (COLORS["base"], "")}


def draw(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    """Write the figure of those soft steps in float32 that were measured, if there are any."""
    steps = [row for row in rows if row["case"].startswith("soft step") and row["dtype"] == "float32" and row["paths"]]
    models = list(dict.fromkeys(row["model"] for row in steps))
    if not models:
        return
    with plt.rc_context(STYLE):
        figure, panels = panel_grid(len(models), 2, 3.2, 2.4, 0.4)
        for panel, model in zip(panels, models, strict=True):
            for name, (color, marker) in CURVES.items():
                own = [row for row in steps if (row["model"], row["implementation"]) == (model, name)]
                own.sort(key=lambda row: int(row["paths"]))
                paths = [int(row["paths"]) for row in own]
                median, low, high = ([float(row[key]) for row in own] for key in ("seconds", "min", "max"))
                below = [m - a for m, a in zip(median, low, strict=True)]
                above = [b - m for m, b in zip(median, high, strict=True)]
                panel.errorbar(paths, median, [below, above], color=color, marker=marker, markersize=4, label=name)
            panel.set(xscale="log", yscale="log", title=model, xlabel="paths per prompt", ylabel="seconds per step")
            panel.set_xticks(paths, map(str, paths))
            panel.minorticks_off()
        shared_legend(figure, panels)
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format="png", dpi=160)
        plt.close(figure)
