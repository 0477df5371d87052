"""A headless browser, and the page of fabricated evaluations that it opens."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.config.params import load_params
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import build_split
from pipeline.report.evaluations import ReportContext, read_evaluations
from pipeline.report.page.page import Section, report_page
from tests.report.conftest import W1, metric_row, prompts, two_models, write_fabricated

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


def structured_tables(members, shift):
    """Tables of an evaluation whose samples are the law's quantiles, shifted, and whose exact law is the law."""
    rows, samples, exact = [], [], []
    for prompt in members:
        values = quantile(prompt.law, (np.arange(60) + 0.5) / 60) + shift
        rows.append({"prompt_id": prompt.prompt_id, "num_samples": 61, "num_valid": 60, W1: 0.1, "floor": 0.05})
        samples.append({"prompt_id": prompt.prompt_id, "values": values.tolist()})
        x = np.unique(quantile(prompt.law, np.linspace(0.001, 0.999, 400)))
        cdf = prompt.law.distribution.cdf(x, **prompt.law.scipy_kwargs)
        exact += [(prompt.prompt_id, *each) for each in zip(x, cdf - 0.001, cdf + 0.001, strict=True)]
    columns = ["prompt_id", "x", "cdf_low", "cdf_high"]
    tables = {"per_prompt": pd.DataFrame(rows).assign(invalid_not_a_number=1), "samples": pd.DataFrame(samples)}
    return {**tables, "exact_cdf": pd.DataFrame(exact, columns=columns)}


@pytest.fixture(scope="session")
def page(tmp_path_factory, two_models, prompts) -> Path:
    """The page of two models: alpha with base and soft, beta with base alone."""
    root = tmp_path_factory.mktemp("page")
    members = [*prompts[0], *build_split("unseen", selection="selected", families=["gaussian", "binomial"])]
    for model, condition in (("alpha", "base"), ("alpha", "soft"), ("beta", "base")):
        row = metric_row("structured", model, condition, "ood", W1, 0.3, n=600, floor=0.02)
        tables = structured_tables(members, 3.0 if condition == "base" else 0.0)
        write_fabricated(root / "evals", [row], {"ood": {"not_a_number": 6}}, **tables)
    evaluations = read_evaluations(root / "evals")
    context = ReportContext(load_params(two_models), evaluations, members)
    sections = [Section(name, name, "What is shown.") for name in ("retention", "paloma")]
    path = root / "index.html"
    path.write_text(report_page(context, sections, [], [], evaluations.provenance), encoding="utf-8")
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


@pytest.fixture
def opened(driver, page):
    """The driver with the page open; ``opened.requests`` are the addresses that it asked for."""
    driver.get("about:blank")
    driver.get_log("performance")
    driver.get(page.as_uri())
    events = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    driver.requests = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    return driver
