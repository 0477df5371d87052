"""A headless browser, and the page of fabricated evaluations that it opens."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.structured.wasserstein import evaluate_prompt, prompt_row
from pipeline.config.params import load_params
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import build_split
from pipeline.core.random_streams import random_stream
from pipeline.report.evaluations import ReportContext, read_evaluations
from pipeline.report.page.page import Section, report_page
from tests.report.conftest import mcq, metric_row, paloma, prompts, retention, two_models, write_fabricated

__all__ = ["prompts", "two_models"]

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SAMPLES = 60


def structured_tables(members, condition):
    """Tables of a structured evaluation whose answers are the law's, shifted under base; soft has all of them."""
    rows, samples, exact, pit = [], [], [], []
    for prompt in members:
        rng = random_stream(0, "browser", condition, prompt.prompt_id)
        values = quantile(prompt.law, rng.random(SAMPLES)) + (3.0 if condition == "base" else 0.0)
        texts = [f"{value:.5f}" if not prompt.law.integer else f"{value:.0f}" for value in values]
        result = evaluate_prompt([*texts, "no number"], prompt.law)
        ends = {f"wasserstein_1_normalised_ci_{end}": result.wasserstein_1_normalised for end in ("low", "high")}
        rows.append({**prompt_row(prompt, result), **ends, "floor": 0.05})
        samples.append({"prompt_id": prompt.prompt_id, "values": result.samples.tolist()})
        x = np.unique(quantile(prompt.law, np.linspace(0.01, 0.99, 40)))
        cdf = prompt.law.distribution.cdf(x, **prompt.law.scipy_kwargs)
        exact += [(prompt.prompt_id, a, max(0.0, b - 0.02), min(1.0, b + 0.02), b) for a, b in zip(x, cdf, strict=True)]
        pit += [(prompt.prompt_id, place, 3, 3.0) for place in range(20)]
    tables = {"per_prompt": pd.DataFrame(rows), "samples": pd.DataFrame(samples)}
    if condition == "soft":
        tables["exact_cdf"] = pd.DataFrame(exact, columns=["prompt_id", "x", "cdf_low", "cdf_high", "target_cdf"])
        tables["pit"] = pd.DataFrame(pit, columns=["prompt_id", "bin", "count", "expected"])
    return tables


@pytest.fixture(scope="session")
def page(tmp_path_factory, two_models, prompts) -> Path:
    """The page of two models: alpha with all conditions, beta with base alone; ssot was not run."""
    root = tmp_path_factory.mktemp("page")
    members = [*prompts[0], *build_split("unseen", selection="selected", families=["gaussian", "binomial"])]
    for model, conditions in (("alpha", ("base", "soft", "hard")), ("beta", ("base",))):
        for place, condition in enumerate(conditions):
            names = ("structured", model, condition)
            metrics = [
                metric_row(*names, split, "wasserstein_1_normalised", 0.3 / (1 + place), n=600, floor=0.02)
                for split in ("ood", "unseen")
            ]
            metrics += [metric_row(*names, split, "valid_rate", 0.98, n=610) for split in ("ood", "unseen")]
            write_fabricated(
                root / "evals", metrics, {"ood": {"not_a_number": 6}}, **structured_tables(members, condition)
            )
            mcq(root / "evals", model, condition, 90)
            retention(root / "evals", model, condition, 0.3)
            paloma(root / "evals", model, condition, 1.3 - 0.1 * place)
    config, evaluations = load_params(two_models), read_evaluations(root / "evals")
    context = ReportContext(config, evaluations, members)
    sections = [Section(name, name, "What is shown.") for name in ("retention", "paloma")]
    path = root / "index.html"
    path.write_text(report_page(context, sections, [], evaluations.provenance), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """A Chromium that logs its console and every request; skips where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    chromedriver = shutil.which("chromedriver")
    if binary is None or chromedriver is None:
        pytest.skip("no Chromium with chromedriver on the PATH (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    yield browser
    browser.quit()


class Opened:
    """The page in the browser: short names for what the tests do with it."""

    def __init__(self, driver, page: Path):
        self.driver, self.address = driver, page.as_uri()

    def open(self, fragment: str = "", width: int = 1400, height: int = 900) -> None:
        """Load the page anew at a width in pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.get("about:blank")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(self.address + fragment)

    def run(self, script: str, *arguments):
        """The value of a script's ``return``."""
        return self.driver.execute_script(script, *arguments)

    def choose(self, control: str, value: str) -> None:
        """Choose an option of a select by its value, as a reader does."""
        from selenium.webdriver.support.ui import Select

        Select(self.driver.find_element("id", control)).select_by_value(value)

    def click(self, selector: str) -> None:
        """Click what a CSS selector finds."""
        self.driver.find_element("css selector", selector).click()

    def traces(self, view: str) -> dict[str, list]:
        """[x, y] by name of what a view has drawn."""
        return dict(
            self.run(
                "const plot = document.getElementById(`plot-${arguments[0]}`);"
                "return (plot.data || []).map((trace) => [trace.name, [Array.from(trace.x), Array.from(trace.y)]]);",
                view,
            )
        )

    def note(self, view: str) -> str:
        """The remarks below a view."""
        return self.run("return document.querySelector(`#panel-${arguments[0]} .note`).textContent", view)

    def console(self) -> list[str]:
        """Messages of the console since the page was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


@pytest.fixture
def opened(driver, page) -> Opened:
    """The page, ready to be opened."""
    return Opened(driver, page)
