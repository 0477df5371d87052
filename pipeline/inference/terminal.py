"""Drawn answers as tables and bars for a terminal."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator
from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import Prompt
from pipeline.core.statistics.intervals import percentile_interval, wilson_interval
from pipeline.inference.sampling import Distance

ROWS, WIDTH = 16, 22
"""Bins of a histogram at most, about; characters of its longest bar."""
WINDOW = (0.02, 0.98)
"""Quantiles of the target between which the bins lie; what is outside is in the first and last one."""
COMMONEST = 20
"""Answers that are listed at most."""
Rows = Sequence[dict[str, Any]]


def one_line(text: str) -> str:
    """A text with line breaks and what a terminal would obey as escape sequences."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def bin_edges(law: Law | FiniteLaw) -> np.ndarray:
    """Inner edges of the bins, float64[B - 1] ascending, round numbers; whole ones for an integer law.

    Bin i holds edges[i - 1] <= x < edges[i], the first and the last one all that is below and above.
    """
    low, high = quantile(law, np.array(WINDOW))
    ticks = MaxNLocator(ROWS, steps=[1, 2, 5, 10], integer=law.integer).tick_values(low, high + law.integer)
    lower, upper = law.support
    inside = ticks[(ticks > lower) & (ticks < upper + law.integer)]
    return inside if len(inside) else np.array([(lower + upper) / 2])


def bin_labels(law: Law | FiniteLaw, edges: np.ndarray) -> list[str]:
    """The values of each bin; of an integer law, its first and last."""
    lower, upper = law.support if law.integer else (-math.inf, math.inf)
    labels = []
    for first, last in zip([lower, *edges], [*(edges - law.integer), upper], strict=True):
        if first == last:
            labels.append(f"{first:g}")
        elif first == -math.inf:
            labels.append(f"below {last + law.integer:g}")
        else:
            labels.append(f"from {first:g}" if last == math.inf else f"{first:g} to {last:g}")
    return labels


def target_shares(law: Law | FiniteLaw, edges: np.ndarray) -> np.ndarray:
    """Probability of each bin under a law, float64[B]."""
    if isinstance(law, FiniteLaw):
        places = np.searchsorted(edges, law.values, side="right")
        return np.bincount(places, weights=law.probabilities, minlength=len(edges) + 1)
    return np.diff(law.freeze().cdf(edges - law.integer), prepend=0.0, append=1.0)


def sample_shares(samples: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Share of samples (float64[N], at least one) in each bin, float64[B]."""
    return np.bincount(np.searchsorted(edges, samples, side="right"), minlength=len(edges) + 1) / len(samples)


def _histogram(title: str, labels: Sequence[str], own: np.ndarray, target: np.ndarray) -> Table:
    table = Table(box=None, pad_edge=False)
    for header, side in (("value", "right"), (title, "left"), ("", "right"), ("target", "left"), ("", "right")):
        table.add_column(Text(header), justify=side, no_wrap=True)
    most = max(own.max(), target.max())
    for label, mine, wanted in zip(labels, own, target, strict=True):
        bars = [Bar(most, 0, share, width=WIDTH, color=color) for share, color in ((mine, "blue"), (wanted, "white"))]
        table.add_row(label, bars[0], f"{mine:.1%}", bars[1], f"{wanted:.1%}")
    return table


def _counted(rows: Rows, column: str) -> list[tuple[Any, int]]:
    """Values of a column with their counts, the most frequent first; None is left out."""
    return Counter(row[column] for row in rows if row[column] is not None).most_common()


def _share(count: int, total: int) -> str:
    low, high = wilson_interval(count, total)
    return f"{count / total:.1%} [{low:.1%}, {high:.1%}]"


def _show(console: Console, name: str, text: str, rows: Rows, table: Table | None, figures: dict[str, str]) -> None:
    """A heading, a table, and figures: how many answers are valid, why others are not, how many were cut, and more."""
    console.print(f"{name}, {len(rows):,} answers to:", one_line(text), markup=False, highlight=False)
    console.print()
    if table is not None:
        console.print(table)
        console.print()
    reasons = _counted(rows, "invalid")
    invalid = ", ".join(f"{reason} {count}" for reason, count in reasons)
    valid = _share(len(rows) - sum(count for _, count in reasons), len(rows))
    shown = {"valid answers": valid + (f"; invalid: {invalid}" if invalid else "")}
    if cut := sum(row["finish_reason"] == "length" for row in rows):
        shown["cut at the limit of tokens"] = f"{cut}"
    grid = Table.grid(padding=(0, 2))
    for title, value in (shown | figures).items():
        grid.add_row(title, Text(value))
    console.print(grid)


def show_distance(console: Console, name: str, text: str, prompt: Prompt, found: Distance, rows: Rows) -> None:
    """Answers to a structured request beside their target."""
    samples, law = found.result.samples, prompt.law
    if not len(samples):
        return _show(console, name, text, rows, None, {"normalised W1": "undefined: no valid answer"})
    edges = bin_edges(law)
    table = _histogram(name, bin_labels(law, edges), sample_shares(samples, edges), target_shares(law, edges))
    interval = "" if math.isnan(found.interval[0]) else " [{:.3f}, {:.3f}]".format(*found.interval)
    figures = {
        "normalised W1": f"{found.result.wasserstein_1_normalised:.3f}{interval}",
        f"a perfect sampler at N = {len(samples):,}": "{:.3f}, 95% of them between {:.3f} and {:.3f}".format(
            found.floors.mean(), *percentile_interval(found.floors)
        ),
    }
    return _show(console, name, text, rows, table, figures)


def show_answers(console: Console, name: str, text: str, rows: Rows) -> None:
    """The commonest answers to any other request, of all answers that are valid or not."""
    counts, total = _counted(rows, "answer"), len(rows)
    table = Table("answer", "", "count", "share, 95% interval", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    for answer, count in counts[:COMMONEST]:
        bar = Bar(counts[0][1], 0, count, width=WIDTH, color="blue")
        table.add_row(Text(one_line(answer)), bar, f"{count:,}", _share(count, total))
    figures = {"different answers": f"{len(counts):,}"}
    if rest := sum(count for _, count in counts[COMMONEST:]):
        figures["answers that are not listed"] = _share(rest, total)
    _show(console, name, text, rows, table, figures)
