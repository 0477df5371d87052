"""The page in a real browser: it loads offline, draws the laws that are chosen, and opens its sections."""

import re

import pytest

CURVES = (
    "[...document.querySelectorAll('#plot path:not(.axis)')].map((p) => "
    "[p.querySelector('title').textContent, p.getAttribute('d')])"
)
ROWS = "[...document.querySelectorAll('#results tr')].map((row) => row.innerText)"


def choose(control: str, text: str) -> str:
    return (
        f"(() => {{ const c = document.getElementById('{control}'); "
        f"c.value = [...c.options].find((o) => o.text === '{text}').value; c.dispatchEvent(new Event('change')); }})()"
    )


def heights(path: str) -> list[float]:
    """Of the cells, in the drawing's own unit."""
    bottom, *levels = (float(y) for y in re.findall(r"(?:M\S+ |V)([\d.]+)", path))
    return [bottom - level for level in levels]


def test_it_loads_without_error_and_asks_for_nothing(visit):
    found = visit("document.title")
    assert found["console"] == [] and found["values"] == ["Calibration Fine-Tuning: demo"]
    assert [address.split(":")[0] for address in found["requests"]] == ["file"]


def test_the_chosen_law_is_drawn_with_samples_and_exact_laws(visit):
    switch = "document.querySelector('#legend button').click()"
    steps = [choose("choose-prompt", "Poisson: lambda = 1"), CURVES, ROWS, switch, CURVES]
    _, curves, rows, _, fewer, *_ = visit(*steps)["values"]
    curves = dict(curves)
    assert set(curves) == {"asked", *(f"{c}, {kind}" for c in ("base", "soft") for kind in ("samples", "exact law"))}
    # The pmf of Poisson(1) at 0, 1, 2 and 3 is as 6 : 6 : 3 : 1; base lies 3 to the right.
    asked, soft = heights(curves["asked"]), heights(curves["soft, exact law"])
    assert asked[0] == pytest.approx(asked[1]) and asked[0] / asked[2] == pytest.approx(2, abs=1e-3)
    assert asked[0] / asked[3] == pytest.approx(6, rel=1e-3) and soft[:4] == pytest.approx(asked[:4], rel=0.05)
    assert heights(curves["base, samples"])[:3] == [0, 0, 0]
    assert [row.split("\t")[:3] for row in rows] == [[c, "60 of 61", "1 not a number"] for c in ("base", "soft")]
    # A name of the legend is a switch.
    assert set(curves) - {name for name, _ in fewer} == {"base, samples"}
    names = visit(choose("choose-model", "Beta 2B"), CURVES)["values"][1]
    assert {name for name, _ in names} == {"asked", "base, samples", "base, exact law"}


def test_sections_open_from_the_navigation(visit):
    opened = "['paloma', 'retention'].map((name) => document.getElementById(name).open)"
    assert visit("document.querySelector(\"nav a[href='#paloma']\").click()", opened)["values"][1] == [True, False]
