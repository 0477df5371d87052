"""The page in a real browser: it loads offline, and the explorer does what its controls say."""

import numpy as np
import pytest

from pipeline.core.prompts.structured import make_prompt

ALL = ("density", "cdf", "pit")
GAUSSIAN = make_prompt("gaussian", {"mu": 3.5, "sigma": 3.0}, "unseen")


def state(**fields):
    return "#explorer/" + "&".join(f"{name}={value}" for name, value in fields.items())


def test_it_loads_without_error_and_without_a_request(opened):
    opened.open()
    assert opened.console() == []
    asked = opened.requests()
    assert asked[0] == opened.address
    assert all(address.split(":")[0] in ("file", "data", "blob") for address in asked)
    assert len([address for address in asked if address.startswith("file:")]) == 1
    assert opened.run("return document.querySelectorAll('#summary-first .plot .main-svg').length") > 0


def test_choosing_a_family_changes_the_plots(opened):
    opened.open()
    before = opened.traces("density")["target"]
    opened.choose("choose-family", "poisson")
    after = opened.traces("density")["target"]
    assert before != after
    # The pmf of Poisson(1) at 0, 1, 2.
    prompt = opened.run("return document.getElementById('prompt-text').textContent")
    assert "Poisson" in prompt and "lambda=1.0" in prompt
    assert after[0][:3] == [0, 1, 2]
    assert after[1][:3] == pytest.approx([0.36788, 0.36788, 0.18394], abs=2e-5)
    opened.choose(
        "choose-parameters", opened.run("return document.getElementById('choose-parameters').options[1].value")
    )
    assert "lambda=4.0" in opened.run("return document.getElementById('prompt-text').textContent")
    assert opened.console() == []


def test_views_of_the_exact_law_and_pit(opened):
    opened.open(state(prompt=GAUSSIAN.prompt_id, conditions="soft"))
    for view in ALL:
        assert opened.traces(view), view
        assert "soft" not in opened.note(view), view
    x, y = opened.traces("pit")["soft"]
    assert x == pytest.approx(np.linspace(0, 1, 21)) and y == pytest.approx([1.0] * 21)
    # Each step is the mean density over its cell, where the bounds are not cut off at 0 or 1.
    ends, steps = (np.array(side) for side in opened.traces("density")["soft, exact law"])
    cdf = GAUSSIAN.law.freeze().cdf(ends)
    central = (cdf[:-1] > 0.03) & (cdf[1:] < 0.97)
    assert len(ends) == 41 and central.sum() > 20
    assert steps[:-1][central] == pytest.approx((np.diff(cdf) / np.diff(ends))[central], abs=0.003)
    x, y = opened.traces("density")["target"]
    assert y == pytest.approx(GAUSSIAN.law.freeze().pdf(np.array(x)), abs=1e-3)


def test_the_address_restores_a_view(opened):
    opened.open()
    opened.choose("choose-family", "poisson")
    opened.click("#choose-conditions input[value=hard]")
    address = opened.driver.current_url
    link = opened.run("return document.getElementById('permalink').href")
    drawn = opened.traces("cdf")
    assert "#explorer/" in address and link == address
    fragment = address.removeprefix(opened.address)
    opened.open(fragment)
    assert opened.traces("cdf") == drawn
    assert opened.run("return document.getElementById('choose-family').value") == "poisson"
    ticked = "return [...document.querySelectorAll('#choose-conditions input:checked')].map((box) => box.value)"
    assert opened.run(ticked) == ["base", "soft"]


@pytest.mark.parametrize("width", [400, 1280, 1400])
def test_nothing_is_wider_than_the_window(opened, width):
    opened.open(width=width)
    opened.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    room, used = opened.run("const root = document.documentElement; return [root.clientWidth, root.scrollWidth]")
    assert used == room and width - 20 <= room <= width
    assert opened.run("return document.getElementById('plot-cdf').clientWidth") > 0.2 * width


def test_sections_open_from_the_navigation_and_by_address(opened):
    opened.open("#retention")
    assert opened.run("return document.getElementById('retention').open") is True
    assert opened.run("return document.getElementById('paloma').open") is False
    opened.click("nav a[href='#paloma']")
    assert opened.run("return document.getElementById('paloma').open") is True
