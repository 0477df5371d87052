"""A report's page in a real browser, from the package @sparticuz/chromium: nothing beyond the window, nothing dead."""

import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.real.conftest import environment, npm_package

pytestmark = pytest.mark.real
RESULTS = ROOT / "results/laptop"


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> dict:
    """What ``browse.py`` finds in the page of the results that are kept with the code."""
    python, chromium = environment("browser"), npm_package("@sparticuz/chromium", "147.0.0")
    report = tmp_path_factory.mktemp("report")
    given = {
        "params": [RESULTS / "params.yaml"],
        "evals": [RESULTS / "evals"],
        "adapters": [RESULTS / "adapters"],
        "prompts": [RESULTS / f"prompts/{split}.parquet" for split in ("unseen", "ood")],
        "metrics": [report / "metrics.csv"],
    }
    options = [text for name, paths in given.items() for text in (f"--{name}", *map(str, paths))]
    subprocess.run(
        [sys.executable, "-m", "pipeline.stages.report", *options], cwd=ROOT, check=True, capture_output=True
    )
    browse = [python, ROOT / "tests/real/browse.py", chromium, report / "index.html"]
    done = subprocess.run(browse, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_reaches_beyond_the_window_of_a_laptop_or_a_telephone(page):
    assert page["too_wide"] == {"1280": [], "390": []}


def test_no_script_fails_and_every_figure_is_drawn(page):
    assert page["errors"] == []
    assert len(page["plots"]) >= 6 and all(page["plots"].values())


def test_the_explorer_shows_the_chosen_request_and_its_link_leads_back_to_it(page):
    shown = page["explorer"]["shown"]
    assert len(shown) == 6 and len({prompt for prompt, _, _ in shown.values()}) == 6
    # A row for each condition, and lines to see.
    assert all(rows == 4 and drawn > 4 for _, rows, drawn in shown.values())
    *_, (last, _, _) = shown.values()
    assert page["explorer"]["linked"] == last
