"""Figure 1 of the paper, from the code that builds the training data: a law, its canonical strings, and targets."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.core.laws.discretize import OutputSpace, discretize
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import Prompt, make_prompt
from pipeline.core.random_streams import random_stream
from pipeline.core.tries.digit_tokens import DigitTokens
from pipeline.core.tries.trie import LEAF, Trie, build_trie
from pipeline.report.figures.drawing import COLORS, STYLE, TARGET_COLOR, Drawing

NUM_DECIMALS, MAX_BINS, SAMPLES = 1, 8, 5
TERMINATOR = 12
TOKENS = DigitTokens((np.arange(10, dtype=np.int32),), 10, 11, TERMINATOR)
"""One token per digit, as in Qwen's and Gemma's tokenizers."""
TEXTS = {**TOKENS.text_of, TERMINATOR: "end"}
CAPTION = (
    f"Figure 1. The method on one prompt, with {MAX_BINS} bins instead of thousands and one token per digit. The "
    "target law becomes strings with masses; soft targets are the next-token laws of their trie, at every prefix; "
    "hard targets are strings drawn from the masses. Either way only the LoRA adapter is trained."
)


def method_drawings(seed: int) -> dict[str, Drawing]:
    """Figure 1 by its file name; its strings are drawn with the root seed ``seed``."""
    prompt = make_prompt("triangular", {"a": 0.0, "c": 1.0, "b": 4.0}, "train")
    return {"figure1": Drawing(method_figure, (prompt, seed), CAPTION)}


def method_figure(prompt: Prompt, seed: int) -> Figure:
    """Figure 1 for a prompt whose strings have no more than a few digits."""
    space = discretize(prompt.law, num_decimals=NUM_DECIMALS, max_bins=MAX_BINS)
    strings = list(map(TOKENS.encode, space.values))
    rng = random_stream(seed, "method figure", prompt.prompt_id)
    drawn = rng.choice(len(strings), size=SAMPLES, p=space.probabilities)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(8.2, 3.6), layout="constrained")
        law, soft, hard = figure.subplots(1, 3, width_ratios=(1.15, 2.3, 1.25))
        figure.suptitle(f"“{prompt.text}”", fontsize=7.5)
        _law_panel(law, prompt, space)
        _trie_panel(soft, build_trie(strings, space.probabilities, TERMINATOR))
        _string_panel(hard, [strings[place] for place in drawn])
    return figure


def _law_panel(panel: Axes, prompt: Prompt, space: OutputSpace) -> None:
    centres = np.array([float(text) for text in space.values])
    grid = np.linspace(*quantile(prompt.law, np.array([0.0001, 0.9999])), 200)
    panel.bar(centres, space.probabilities, 0.6 * np.diff(centres).min(), color=COLORS["base"])
    density = prompt.law.freeze().pdf(grid)
    panel.plot(grid, density / density.max() * space.probabilities.max(), color=TARGET_COLOR, linewidth=1.1)
    panel.set_xticks(centres, space.values, rotation=90, fontsize=6.5)
    panel.set_ylabel("mass of the string")
    panel.set_title("Law (line) to canonical strings", fontsize=8)


def _write(panel: Axes, x: float, y: float, text: str, edge: str = "none", **look: Any) -> None:
    """Text centred at a place; in a frame where ``edge`` is a color."""
    box = {"facecolor": "white", "edgecolor": edge, "boxstyle": "round,pad=0.25", "linewidth": 0.8}
    panel.text(x, y, text, ha="center", va="center", bbox=box, **{"fontsize": 7, **look})


def _trie_panel(panel: Axes, trie: Trie) -> None:
    """Prefixes from left to right, leaves from top to bottom; lines are as wide as their tokens are probable."""
    rows = iter(range(0, -trie.num_edges, -1))
    deepest = 0

    def draw(prefix: int, depth: int, text: str) -> float:
        """Draw a prefix and all behind it; the height at which it is."""
        nonlocal deepest
        deepest = max(deepest, depth)
        if prefix == LEAF:
            height = float(next(rows))
        else:
            edges = trie.children(prefix)
            children = list(zip(trie.edge_children[edges], trie.edge_tokens[edges], strict=True))
            heights = [draw(int(child), depth + 1, TEXTS[int(token)]) for child, token in children]
            height = (heights[0] + heights[-1]) / 2
            for below, q in zip(heights, trie.edge_probabilities[edges], strict=True):
                panel.plot([depth, depth + 1], [height, below], color=COLORS["soft"], zorder=1, linewidth=0.4 + 3 * q)
                # Nearer to the child, where the lines of one prefix lie apart.
                _write(panel, depth + 0.64, 0.36 * height + 0.64 * below, f"{q:.2f}", fontsize=5.5, zorder=2)
        _write(panel, depth, height, text, COLORS["soft"], zorder=3)
        return height

    draw(0, 0, "prompt")
    lowest = next(rows)
    _write(panel, deepest / 2, lowest - 0.4, "loss: KL(q ‖ model) at each prefix of a path")
    panel.set_xlim(-0.5, deepest + 0.4)
    panel.set_ylim(lowest - 1, 0.8)
    panel.set_title("Soft targets: q(token | prefix) of the trie", fontsize=8, color=COLORS["soft"])
    panel.set_axis_off()


def _string_panel(panel: Axes, sampled: Sequence[Sequence[int]]) -> None:
    for row, ids in enumerate(sampled):
        _write(panel, 0, -row, "prompt", "#bbbbbb", color="#777777")
        for place, token in enumerate([*ids, TERMINATOR], start=1):
            _write(panel, place, -row, TEXTS[int(token)], COLORS["hard"])
    longest = 1 + max(map(len, sampled))
    _write(panel, longest / 2, -len(sampled) - 0.1, "loss: cross-entropy of the framed tokens")
    panel.set_xlim(-0.8, longest + 0.4)
    panel.set_ylim(-len(sampled) - 0.6, 0.8)
    panel.set_title("Hard targets: sampled strings", fontsize=8, color=COLORS["hard"])
    panel.set_axis_off()
