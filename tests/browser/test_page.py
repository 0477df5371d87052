"""The page in a real browser: it loads offline, draws the laws that are chosen, and opens its sections."""

import numpy as np
import pytest

TRACES = "return document.getElementById('plot').data.map((t) => [t.name, [Array.from(t.x), Array.from(t.y)]])"


def choose(opened, control, text):
    from selenium.webdriver.support.ui import Select

    Select(opened.find_element("id", control)).select_by_visible_text(text)


def test_it_loads_without_error_and_without_a_request(opened):
    assert opened.get_log("browser") == []
    assert opened.requests[0].startswith("file:")
    assert all(address.split(":")[0] in ("data", "blob") for address in opened.requests[1:])


def test_the_chosen_law_is_drawn_with_samples_and_exact_laws(opened):
    choose(opened, "choose-prompt", "Poisson: lambda = 1")
    traces = dict(opened.execute_script(TRACES))
    assert set(traces) == {"target", *(f"{c}, {kind}" for c in ("base", "soft") for kind in ("samples", "exact law"))}
    # The pmf of Poisson(1) at 0, 1, 2, over cells half-way between integers; base lies 3 to the right.
    x, y = traces["target"]
    assert x[:3] == [-0.5, 0.5, 1.5] and y[:3] == pytest.approx([0.36788, 0.36788, 0.18394], abs=2e-5)
    assert np.abs(np.subtract(y, traces["soft, samples"][1])).max() < 0.02
    assert traces["base, samples"][1][:3] == [0, 0, 0]
    assert np.abs(np.subtract(y, traces["soft, exact law"][1]))[:4].max() < 0.002
    rows = opened.execute_script("return [...document.querySelectorAll('#results tr')].map((row) => row.innerText)")
    assert [row.split("\t")[:3] for row in rows] == [[c, "60 of 61", "1 not a number"] for c in ("base", "soft")]
    choose(opened, "choose-model", "Beta 2B")
    assert set(dict(opened.execute_script(TRACES))) == {"target", "base, samples", "base, exact law"}
    assert opened.get_log("browser") == []


def test_sections_open_from_the_navigation(opened):
    opened.find_element("css selector", "nav a[href='#paloma']").click()
    is_open = "return document.getElementById(arguments[0]).open"
    assert opened.execute_script(is_open, "paloma") is True and opened.execute_script(is_open, "retention") is False
