"""What is drawn or computed, as tables and bars for a terminal."""

import itertools
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

from pipeline.axes.laws.law_metrics import CHI_SQUARE_P, LawResult
from pipeline.core.exact.number_law import NumberLawBounds
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


def one_line(text: str) -> str:
    """A text with line breaks and what a terminal would obey as escape sequences."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def bin_edges(law: Law) -> np.ndarray:
    """Inner edges of the bins, float64[B - 1] ascending, round numbers; whole ones for an integer law.

    Bin i holds edges[i - 1] <= x < edges[i], the first and the last one all that is below and above.
    """
    low, high = quantile(law, np.array(WINDOW))
    ticks = MaxNLocator(ROWS, steps=[1, 2, 5, 10], integer=law.integer).tick_values(low, high + law.integer)
    lower, upper = law.support
    inside = ticks[(ticks > lower) & (ticks < upper + law.integer)]
    return inside if len(inside) else np.array([(lower + upper) / 2])


def bin_labels(law: Law, edges: np.ndarray) -> list[str]:
    """The values of each bin; of an integer law, its first and last."""
    lower, upper = law.support
    if not law.integer:
        inner = [f"{a:.4g} to {b:.4g}" for a, b in itertools.pairwise(edges)]
        return [f"below {edges[0]:.4g}", *inner, f"from {edges[-1]:.4g}"]
    ends = zip([lower, *edges], [*(edges - 1), upper], strict=True)
    return [
        f"{a:g}"
        if a == b
        else f"up to {b:g}"
        if a == -math.inf
        else f"from {a:g}"
        if b == math.inf
        else f"{a:g} to {b:g}"
        for a, b in ends
    ]


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


def _commonest(rows: Sequence[dict[str, Any]], column: str) -> list[tuple[Any, int]]:
    """Values of a column with their counts, the most frequent first; None is left out."""
    return Counter(row[column] for row in rows if row[column] is not None).most_common()


def _share(count: int, total: int) -> str:
    low, high = wilson_interval(count, total)
    return f"{count / total:.1%} [{low:.1%}, {high:.1%}]"


def _heading(console: Console, name: str, what: str, text: str) -> None:
    console.print(f"{name}, {what}:", one_line(text), markup=False, highlight=False)
    console.print()


def _figures(console: Console, figures: Sequence[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 2))
    for title, value in figures:
        table.add_row(title, Text(value))
    console.print()
    console.print(table)


def _failures(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """How many answers are valid, why others are not, and how many were cut."""
    reasons, total = _commonest(rows, "invalid"), len(rows)
    counts = ", ".join(f"{reason} {count}" for reason, count in reasons)
    valid = total - sum(count for _, count in reasons)
    figures = [("valid answers", f"{_share(valid, total)}" + (f"; invalid: {counts}" if counts else ""))]
    if cut := sum(row["finish_reason"] == "length" for row in rows):
        figures.append(("cut at the limit of tokens", f"{cut}"))
    return figures


def show_distance(
    console: Console, name: str, text: str, prompt: Prompt, found: Distance, rows: Sequence[dict[str, Any]]
) -> None:
    """Answers to a structured request beside their target."""
    _heading(console, name, f"{len(rows):,} answers to", text)
    samples, law = found.result.samples, prompt.law
    if len(samples):
        edges = bin_edges(law)
        console.print(
            _histogram(name, bin_labels(law, edges), sample_shares(samples, edges), target_shares(law, edges))
        )
    interval = "" if math.isnan(found.interval[0]) else " [{:.3f}, {:.3f}]".format(*found.interval)
    floor = "{:.3f}, 95% of them between {:.3f} and {:.3f}".format(found.floor, *found.floor_interval)
    distance = found.result.wasserstein_1_normalised
    figures = [("normalised W1", "undefined: no valid answer" if math.isnan(distance) else f"{distance:.3f}{interval}")]
    if len(samples):
        figures.append((f"a perfect sampler at N = {len(samples):,}", floor))
    _figures(console, [*_failures(rows), *figures])


def show_categories(
    console: Console, name: str, text: str, prompt: Prompt, found: LawResult, rows: Sequence[dict[str, Any]]
) -> None:
    """Answers to a request for one of several strings, by class, beside their target."""
    _heading(console, name, f"{len(rows):,} answers to", text)
    counts, target = np.array(list(found.counts.values())), prompt.law.class_probabilities
    total, metric = int(counts.sum()), "law_total_variation"
    figures = [("total variation", "undefined: no valid answer")]
    if total:
        # The commonest targets; a law may have thousands of strings.
        shown = np.argsort(-target, kind="stable")[:COMMONEST]
        labels = [one_line(prompt.law.class_names[place]) for place in shown]
        console.print(_histogram(name, labels, (counts / total)[shown], target[shown]))
        low, high = np.clip(found.row[metric] + np.array(percentile_interval(found.deviations[metric])), 0, 1)
        least, most = percentile_interval(found.floors[metric])
        figures = [
            ("total variation", f"{found.row[metric]:.3f} [{low:.3f}, {high:.3f}]"),
            (
                f"a perfect sampler at N = {total:,}",
                f"{found.row['floor']:.3f}, 95% of them between {least:.3f} and {most:.3f}",
            ),
            ("chi-square test", f"p = {found.row[CHI_SQUARE_P]:.2g}"),
        ]
    _figures(console, [*_failures(rows), *figures])


def show_answers(console: Console, name: str, text: str, rows: Sequence[dict[str, Any]]) -> None:
    """The commonest answers to any other request, of all answers that are valid or not."""
    _heading(console, name, f"{len(rows):,} answers to", text)
    counts, total = _commonest(rows, "answer"), len(rows)
    table = Table("answer", "", "count", "share, 95% interval", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    for answer, count in counts[:COMMONEST]:
        bar = Bar(counts[0][1], 0, count, width=WIDTH, color="blue")
        table.add_row(Text(one_line(answer)), bar, f"{count:,}", _share(count, total))
    console.print(table)
    figures = [("different answers", f"{len(counts):,}")]
    if rest := sum(count for _, count in counts[COMMONEST:]):
        figures.append(("answers that are not listed", _share(rest, total)))
    _figures(console, [*figures, *_failures(rows)])


def show_bounds(console: Console, name: str, text: str, law: Law, bounds: NumberLawBounds) -> None:
    """The model's own law over numbers beside its target."""
    _heading(console, name, "its law of answers to", text)
    known, wanted = bounds.distribution, bin_edges(law) - law.integer
    x = known["x"]
    # The law is bounded at these values alone; behind the last one is nothing.
    places = np.unique(np.searchsorted(x, wanted).clip(0, max(len(x) - 2, 0)))
    low, high, target = (known[key][places] for key in ("cdf_low", "cdf_high", "target_cdf"))
    own, error = np.diff((low + high) / 2, prepend=0.0, append=1.0), np.append(high - low, 0) + np.append(0, high - low)
    labels = bin_labels(law, x[places] + law.integer)
    console.print(_histogram(name, labels, own, np.diff(target, prepend=0.0, append=1.0)))
    figures = [
        ("every share is known to", f"± {error.max() / 2:.2%}"),
        ("normalised W1", f"{bounds.wasserstein_1_low:.4f} to {bounds.wasserstein_1_high:.4f}, in the target's window"),
        ("KS distance", f"{bounds.ks_low:.4f} to {bounds.ks_high:.4f}"),
        ("valid answers", f"{bounds.valid_low:.2%} to {bounds.valid_high:.2%} of all that it writes"),
        ("no plain decimal", f"at least {bounds.mass_outside:.2%}"),
        ("prefixes scored", f"{bounds.positions:,}"),
    ]
    _figures(console, figures)
