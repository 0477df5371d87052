"""A browser, and the page of fabricated evaluations that it opens."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.config.params import load_params
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import build_split
from pipeline.report.evaluations import ReportContext, read_evaluations
from pipeline.report.page.page import Section, report_page
from pipeline.report.result import make_result
from tests.report.conftest import W1, metric_row, prompts, two_models, write_fabricated

__all__ = ["prompts", "two_models"]


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
    path.write_text(report_page(context, sections, make_result(context), [], evaluations.provenance), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def visit(page):
    """Opens the page in Chromium, as Qt's PyPI package has it, runs expressions of JavaScript one after the other, and
    gives their values, what the console said, and the addresses that were asked for; skips without that package."""
    if importlib.util.find_spec("PyQt6") is None or importlib.util.find_spec("PyQt6.QtWebEngineCore") is None:
        pytest.skip("no browser: pip install PyQt6-WebEngine")

    def run(*expressions: str) -> dict:
        command = [sys.executable, str(Path(__file__).with_name("chromium.py")), page.as_uri(), *expressions]
        environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "QTWEBENGINE_DISABLE_SANDBOX": "1"}
        found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
        return json.loads(found.stdout)

    return run
