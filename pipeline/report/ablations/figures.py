"""Figure 14: samples by the precision of the strings trained on."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.axes.structured.figures import law_panels, overlay_prompts
from pipeline.config.params import Params
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import Prompt
from pipeline.report.ablations.runs import (
    SOFT_GRANULARITY,
    Ablations,
    Block,
    block_titles,
)
from pipeline.report.figures.drawing import FAMILY_COLORS, TARGET_COLOR, Drawing

SELECTED_STRINGS = 1001
LINE_STYLES = ("-", "--", "-.", ":")
Draws = Mapping[int, Mapping[str, np.ndarray]]
"""Valid samples by decimals and prompt_id."""


def ablation_drawings(ablations: Ablations, params: Params, prompts: Sequence[Prompt]) -> dict[str, Drawing]:
    """Figure 14 by its file name, where there are runs."""
    found = discretisation_overlays(ablations.soft, params, prompts)
    return {} if found is None else {"figure14": found}


def samples_by_decimals(block: Block, max_bins: int | None) -> dict[int, dict[str, np.ndarray]]:
    """Valid samples of all seeds together: ``samples[num_decimals][prompt_id]``, float64[n]."""
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
    """Figure 14, one prompt per held-out family; None where there is no run."""
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
    """One panel per prompt and block: the target law and an outline per number of decimals."""
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
