"""Figure 14: samples on held-out laws by the precision of the strings that the soft-target method trained on."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.config.params import Params
from pipeline.core.laws.families import FAMILIES
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import Prompt
from pipeline.report.ablations.cells import SOFT_GRANULARITY, Block, block_titles
from pipeline.report.figures.drawing import FAMILY_COLORS, STYLE, TARGET_COLOR, Drawing, shared_legend
from pipeline.report.figures.structured import overlay_prompts

SELECTED_STRINGS = 1001
PANEL_COLUMNS = 3
LINE_STYLES = ("-", "--", "-.", ":")
Draws = Mapping[int, Mapping[str, np.ndarray]]
"""Valid samples by decimals and prompt_id."""


def samples_by_decimals(block: Block, max_bins: int | None) -> dict[int, dict[str, np.ndarray]]:
    """Valid samples of all seeds together: ``samples[num_decimals][prompt_id]``, float64[n].

    Args:
        block: Cells of SOFT_GRANULARITY.
        max_bins: The largest number of strings of the cells to take.
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


def discretisation_overlays(blocks: Sequence[Block], config: Params, prompts: Sequence[Prompt]) -> Drawing | None:
    """Figure 14; None where no cell was run.

    Args:
        blocks: Cells of SOFT_GRANULARITY.
        config: The parameters, for display names.
        prompts: Held-out prompts; one per family is shown.
    """
    panels = overlay_prompts(prompts)
    drawn = {}
    for block, title in zip(blocks, block_titles(blocks, config), strict=True):
        if block.runs:
            bins = overlaid_strings(block)
            drawn[title] = (samples_by_decimals(block, bins), bins)
    if not panels or not any(samples for samples, _ in drawn.values()):
        return None
    strings = "; ".join(f"{title}: at most {'all' if bins is None else bins}" for title, (_, bins) in drawn.items())
    caption = (
        "Figure 14. Held-out laws (black) with samples of soft-target models by the number of decimals that they were "
        f"trained on, all seeds together; samples outside a panel are not drawn. Strings per law: {strings}."
    )
    shown = {prompt.prompt_id for prompt in panels}
    blocks_drawn = {
        title: {
            decimals: {key: values for key, values in members.items() if key in shown}
            for decimals, members in samples.items()
        }
        for title, (samples, _) in drawn.items()
    }
    return Drawing(precision_panels, (panels, blocks_drawn), caption)


def precision_panels(panels: Sequence[Prompt], blocks: Mapping[str, Draws]) -> Figure:
    """One panel per prompt and block: the target law and an outline per number of decimals.

    Args:
        panels: One prompt per panel, three panels to a line.
        blocks: Samples by the title of their block.
    """
    columns = min(len(panels), PANEL_COLUMNS)
    lines = -(-len(panels) // columns)
    decimals = sorted({number for samples in blocks.values() for number in samples})
    with plt.rc_context(STYLE):
        size = (2.4 * columns, 1.9 * lines * len(blocks) + 0.4)
        figure, grid = plt.subplots(lines * len(blocks), columns, figsize=size, squeeze=False, layout="constrained")
        for number, (title, samples) in enumerate(blocks.items()):
            axes = grid[lines * number : lines * (number + 1)].flatten()
            for axis, prompt in zip(axes, panels, strict=False):
                _panel(axis, prompt, samples, decimals)
            for axis in axes[len(panels) :]:
                axis.set_axis_off()
            axes[0].set_ylabel(title)
        shared_legend(figure, grid.flatten())
    return figure


def _panel(axis: Axes, prompt: Prompt, samples: Draws, decimals: Sequence[int]) -> None:
    """The target law and one outline per number of decimals; heights are shares of all samples, also those outside."""
    integer = prompt.law.integer
    low, high = (float(value) for value in quantile(prompt.law, np.array([0.001, 0.995])))
    frozen = prompt.law.freeze()
    if integer:
        bins = np.arange(np.floor(low) - 0.5, np.ceil(high) + 1.0)
        support = (bins[:-1] + bins[1:]) / 2
        axis.plot(support, frozen.pmf(support), "o", color=TARGET_COLOR, markersize=2.5, label="target")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    else:
        bins = np.linspace(low, high, 25)
        grid = np.linspace(low, high, 400)
        axis.plot(grid, frozen.pdf(grid), color=TARGET_COLOR, linewidth=1.1, label="target")
        # Without a bound a density that is infinite at its end would flatten everything else.
        axis.set_ylim(top=1.9 * float(np.quantile(frozen.pdf(grid), 0.98)))
    for place, number in enumerate(decimals):
        values = samples.get(number, {}).get(prompt.prompt_id)
        if values is None or not len(values):
            continue
        heights = np.histogram(values, bins)[0] / len(values) / np.diff(bins)
        axis.stairs(
            heights,
            bins,
            color=FAMILY_COLORS[place % len(FAMILY_COLORS)],
            linewidth=1.0,
            linestyle=LINE_STYLES[place % len(LINE_STYLES)],
            label=f"{number} decimal{'s' if number != 1 else ''}",
        )
    axis.set_xlim(bins[0], bins[-1])
    axis.set_ylim(bottom=0)
    axis.set_yticks([])
    rendered = ", ".join(f"{name}={value:g}" for name, value in prompt.parameters.items())
    title = f"{FAMILIES[prompt.family].display_name}({rendered})"
    axis.set_title(title, fontsize=7 if len(title) < 36 else 6)
