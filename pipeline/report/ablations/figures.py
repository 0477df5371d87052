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
from pipeline.report.ablations.runs import SOFT_GRANULARITY, Ablations, Block, block_titles
from pipeline.report.figures.drawing import FAMILY_COLORS, TARGET_COLOR, Drawing

SELECTED_STRINGS = 1001
LINE_STYLES = ("-", "--", "-.", ":")
Draws = Mapping[int, Mapping[str, np.ndarray]]
"""Valid samples by decimals and prompt_id."""


def samples_by_decimals(block: Block, max_bins: int | None) -> dict[int, dict[str, np.ndarray]]:
    """Valid samples of all seeds together: ``samples[num_decimals][prompt_id]``, float64[n]."""
    found: dict[int, dict[str, list[np.ndarray]]] = {}
    for (num_decimals, bins), runs in sorted(block.runs.items(), key=str):
        for run in runs if bins == max_bins and num_decimals is not None else ():
            samples = run.evaluations.samples([block.model], [SOFT_GRANULARITY.condition]).get(block.model, {})
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


def ablation_drawings(ablations: Ablations, params: Params, prompts: Sequence[Prompt]) -> dict[str, Drawing]:
    """Figure 14 by its file name, one prompt per held-out family; nothing where there is no run."""
    shown, titles = overlay_prompts(prompts), block_titles(ablations.soft, params)
    blocks = {title: block for block, title in zip(ablations.soft, titles, strict=True) if block.runs}
    bins = {title: overlaid_strings(block) for title, block in blocks.items()}
    kept = {prompt.prompt_id for prompt in shown}
    samples = {
        title: {
            decimals: {key: values for key, values in members.items() if key in kept}
            for decimals, members in samples_by_decimals(block, bins[title]).items()
        }
        for title, block in blocks.items()
    }
    if not shown or not any(samples.values()):
        return {}
    strings = "; ".join(f"{title}: at most {'all' if most is None else most}" for title, most in bins.items())
    caption = (
        "Figure 14. Held-out laws (black) with samples of soft-target models by the number of decimals that they were "
        f"trained on, all seeds together; samples outside a panel are not drawn. Strings per law: {strings}."
    )
    return {"figure14": Drawing(precision_panels, (shown, samples), caption)}


def precision_panels(prompts: Sequence[Prompt], blocks: Mapping[str, Draws]) -> Figure:
    """One panel per prompt and block: the target law and an outline per number of decimals.

    Heights of outlines are shares of all samples, also of those outside the panel.
    """
    decimals = sorted({number for samples in blocks.values() for number in samples})

    def draw(panel: Axes, prompt: Prompt, samples: Draws) -> None:
        bins = _draw_target(panel, prompt)
        for place, number in enumerate(decimals):
            values = samples.get(number, {}).get(prompt.prompt_id)
            if values is not None and len(values):
                panel.stairs(
                    np.histogram(values, bins)[0] / len(values) / np.diff(bins),
                    bins,
                    color=FAMILY_COLORS[place % len(FAMILY_COLORS)],
                    linewidth=1.0,
                    linestyle=LINE_STYLES[place % len(LINE_STYLES)],
                    label=f"{number} decimal{'s' if number != 1 else ''}",
                )
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
