"""Figures as files, their marks, and the looks of conditions."""

from matplotlib import pyplot as plt

from pipeline.report.figures.drawing import (
    COLORS,
    CONDITION_MARKERS,
    FURTHER_COLORS,
    Drawing,
    condition_colors,
    condition_markers,
    draw_all,
)


def line(values):
    """A figure; None without values."""
    if not values:
        return None
    figure, axis = plt.subplots(figsize=(2, 2), layout="constrained")
    axis.plot(values)
    return figure


def test_figures_are_files(tmp_path):
    drawings = {
        "first": {"a": Drawing(line, ([1, 2],), "A"), "none": Drawing(line, ([],), "nothing")},
        "second": {"b": Drawing(line, ([2, 1],), "B")},
    }
    assert draw_all(drawings, tmp_path) == {"first": ["a"], "second": ["b"]}
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "a.pdf", "b.png", "b.pdf"}


def test_further_methods_have_looks_of_their_own_in_the_configured_order():
    methods = ("anchored", "soft", "merged", "hard", *(f"m{number}" for number in range(9)))
    colors, markers = condition_colors(("base", *methods)), condition_markers(("base", *methods))
    assert {name: colors[name] for name in COLORS} == COLORS
    assert {name: markers[name] for name in CONDITION_MARKERS} == CONDITION_MARKERS
    further = [name for name in methods if name not in ("soft", "hard")]
    # More methods than colours: these come again, with other markers.
    assert [colors[name] for name in further] == [*FURTHER_COLORS, *FURTHER_COLORS, FURTHER_COLORS[0]]
    assert len({(colors[name], markers[name]) for name in methods}) == len(methods)
