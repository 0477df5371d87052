"""Figure 1 of the paper: from a prompt to a law, its canonical strings, and what soft and hard targets train on.

Nothing is drawn by hand: the strings, their masses, the trie and its next-token targets come from the same code
that builds the training data, at a size that fits a page.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
"""Size of the drawing: canonical strings, and sampled strings of the hard targets."""
TERMINATOR = 12
TOKENS = DigitTokens((np.arange(10, dtype=np.int32),), 10, 11, TERMINATOR)
"""One token per digit, as in Qwen's and Gemma's tokenizers."""
CAPTION = (
    f"Figure 1. The method on one prompt, with {MAX_BINS} bins instead of thousands and one token per digit. The "
    "target law becomes strings with masses; soft targets are the next-token laws of their trie, at every prefix; "
    "hard targets are strings drawn from the masses. Either way only the LoRA adapter is trained."
)


class Node(NamedTuple):
    """A place in the drawing of a trie: how many tokens and which node are before it (-1 at the root), its height in
    rows of leaves, its last token, and q of that token (NaN at the root).
    """

    depth: int
    parent: int
    row: float
    text: str
    probability: float


def trie_layout(trie: Trie, texts: Mapping[int, str]) -> list[Node]:
    """Nodes of a trie, terminators included as leaves, in depth-first order; leaves at rows 0, 1, 2 and so on.

    ``texts`` has the text of each token.
    """
    nodes: list[Node] = []
    rows = iter(range(trie.num_edges))

    def place(prefix: int, node: Node) -> float:
        own = len(nodes)
        nodes.append(node)
        if prefix == LEAF:
            row = float(next(rows))
        else:
            edges = trie.children(prefix)
            columns = (trie.edge_children, trie.edge_tokens, trie.edge_probabilities)
            heights = [
                place(int(child), Node(node.depth + 1, own, 0.0, texts[int(token)], float(q)))
                for child, token, q in zip(*(column[edges] for column in columns), strict=True)
            ]
            row = (heights[0] + heights[-1]) / 2
        nodes[own] = node._replace(row=row)
        return row

    place(0, Node(0, -1, 0.0, "prompt", math.nan))
    return nodes


def method_drawings(seed: int) -> dict[str, Drawing]:
    """Figure 1 by its file name; its strings are drawn with the root seed ``seed``."""
    prompt = make_prompt("triangular", {"a": 0.0, "c": 1.0, "b": 4.0}, "train")
    return {"figure1": Drawing(method_figure, (prompt, seed), CAPTION)}


def method_figure(prompt: Prompt, seed: int) -> Figure:
    """Figure 1 for a prompt whose strings have no more than a few digits."""
    space = discretize(prompt.law, num_decimals=NUM_DECIMALS, max_bins=MAX_BINS)
    strings = list(space.values)
    trie = build_trie([TOKENS.encode(text) for text in strings], space.probabilities, TERMINATOR)
    rng = random_stream(seed, "method figure", prompt.prompt_id)
    drawn = rng.choice(len(strings), size=SAMPLES, p=space.probabilities)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(8.2, 3.6), layout="constrained")
        law, soft, hard = figure.subplots(1, 3, width_ratios=(1.15, 2.3, 1.25))
        figure.suptitle(f"“{prompt.text}”", fontsize=7.5)
        _law_panel(law, prompt, space, strings)
        _trie_panel(soft, trie_layout(trie, {**TOKENS.text_of, TERMINATOR: "end"}))
        _string_panel(hard, [TOKENS.encode(strings[place]) for place in drawn])
    return figure


def _law_panel(panel: Axes, prompt: Prompt, space: OutputSpace, strings: Sequence[str]) -> None:
    centres = np.array([float(text) for text in strings])
    low, high = quantile(prompt.law, np.array([0.0001, 0.9999]))
    grid = np.linspace(low, high, 200)
    panel.bar(centres, space.probabilities, 0.6 * np.diff(centres).min(), color=COLORS["base"])
    density = prompt.law.freeze().pdf(grid)
    panel.plot(grid, density / density.max() * space.probabilities.max(), color=TARGET_COLOR, linewidth=1.1)
    panel.set_xticks(centres, strings, rotation=90, fontsize=6.5)
    panel.set_ylim(0, 1.25 * space.probabilities.max())
    panel.set_ylabel("mass of the string")
    panel.set_title("Law (line) to canonical strings", fontsize=8)


def _write(panel: Axes, x: float, y: float, text: str, fontsize: float = 7, **look: Any) -> None:
    """Text centred at a place."""
    panel.text(x, y, text, fontsize=fontsize, ha="center", va="center", **look)


def _token(panel: Axes, x: float, y: float, text: str, edge: str, color: str = "black") -> None:
    """A token in a box."""
    box = {"facecolor": "white", "edgecolor": edge, "boxstyle": "round,pad=0.25", "linewidth": 0.8}
    _write(panel, x, y, text, color=color, zorder=3, bbox=box)


def _trie_panel(panel: Axes, nodes: Sequence[Node]) -> None:
    rows = max(node.row for node in nodes)
    for node in nodes:
        y = rows - node.row
        if node.parent >= 0:
            before = nodes[node.parent]
            above, width = rows - before.row, 0.4 + 3.0 * node.probability
            panel.plot([before.depth, node.depth], [above, y], color=COLORS["soft"], zorder=1, linewidth=width)
            # Labels nearer to the child than to the parent, where the edges of one parent lie apart.
            middle = 0.36 * before.depth + 0.64 * node.depth, 0.36 * above + 0.64 * y
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
            _write(panel, *middle, f"{node.probability:.2f}", fontsize=5.5, zorder=2, bbox=ground)
        _token(panel, node.depth, y, node.text, COLORS["soft"])
    deepest = max(node.depth for node in nodes)
    panel.set_xlim(-0.5, deepest + 0.4)
    panel.set_ylim(-1.6, rows + 0.8)
    _write(panel, deepest / 2, -1.2, "loss: KL(q ‖ model) at each prefix of a path")
    panel.set_title("Soft targets: q(token | prefix) of the trie", fontsize=8, color=COLORS["soft"])
    panel.set_axis_off()


def _string_panel(panel: Axes, sampled: Sequence[Sequence[int]]) -> None:
    for row, ids in enumerate(sampled):
        _token(panel, 0, -row, "prompt", "#bbbbbb", "#777777")
        for place, text in enumerate([*(TOKENS.text_of[token] for token in ids), "end"], start=1):
            _token(panel, place, -row, text, COLORS["hard"])
    longest = 1 + max(map(len, sampled))
    panel.set_xlim(-0.8, longest + 0.4)
    panel.set_ylim(-len(sampled) - 0.6, 0.8)
    _write(panel, longest / 2, -len(sampled) - 0.1, "loss: cross-entropy of the framed tokens")
    panel.set_title("Hard targets: sampled strings", fontsize=8, color=COLORS["hard"])
    panel.set_axis_off()
