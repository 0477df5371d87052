"""The page: the data of its interactive view, and that it is safe and self-contained."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from pipeline.config.params import load_params
from pipeline.core.laws.cells import edges_of, law_cells
from pipeline.core.laws.family import Law
from pipeline.core.prompts.structured import build_split
from pipeline.report.evaluations import ReportContext, read_evaluations
from pipeline.report.page.explorer import exact_masses, explorer_payload
from pipeline.report.page.page import Section, embedded_json, report_page
from pipeline.report.result import make_result
from pipeline.report.table import Cell, Table
from tests.report.conftest import CONDITIONS, W1, metric_row, structured, write_fabricated

POISSON = Law("poisson", {"mu": 4.0})
NORMAL = Law("norm", {"loc": 3.0, "scale": 2.0})
CAUCHY = Law("cauchy", {"loc": 0.0, "scale": 1.0})


@pytest.fixture(scope="module")
def params(two_models):
    return load_params(two_models)


def test_cells_reach_beyond_the_central_90_percent():
    # Q.001 and Q.999 of the normal lie within half of Q95 - Q05 beyond the central 90%; those of Cauchy do not.
    assert law_cells(NORMAL)[[0, -1]] == pytest.approx([3 - 2 * 3.0902, 3 + 2 * 3.0902], abs=1e-3)
    assert law_cells(CAUCHY)[[0, -1]] == pytest.approx([-2 * 6.3138, 2 * 6.3138], abs=1e-3)
    # Quantiles of Poisson(4): Q.001 = 0, Q.05 = 1, Q.95 = 8, Q.999 = 11; 8 + 3.5 is beyond 11, one more is shown.
    assert law_cells(POISSON).tolist() == list(range(-1, 13))
    assert edges_of(POISSON, law_cells(POISSON))[0] == -0.5
    for prompt in build_split("unseen") + build_split("ood"):
        ends = law_cells(prompt.law)
        cdf = prompt.law.distribution.cdf(ends, **prompt.law.scipy_kwargs)
        assert np.all(np.diff(ends) > 0) and len(ends) <= 121 and cdf[-1] - cdf[0] > 0.9


def test_masses_of_the_exact_law_are_between_its_bounds():
    ends = law_cells(NORMAL)
    cdf = NORMAL.distribution.cdf(ends, **NORMAL.scipy_kwargs)
    found = exact_masses(NORMAL, ends, ends, cdf - 0.01, cdf + 0.01)
    assert found == pytest.approx(np.diff(cdf), abs=1e-5)
    assert exact_masses(NORMAL, ends, ends, np.full(len(ends), np.nan), cdf) is None


def test_the_views_data_by_hand(tmp_path, prompts):
    members, _ = prompts
    poisson = next(prompt for prompt in members if prompt.family == "poisson" and prompt.parameters["lambda"] == 4.0)
    samples = pd.DataFrame({"prompt_id": [poisson.prompt_id, "unknown"], "values": [[0.0, 4.0, 4.0, 99.0], [1.0]]})
    numbers = {"prompt_id": poisson.prompt_id, "num_samples": 5, "num_valid": 4, W1: 0.25, "floor": math.nan}
    per_prompt = pd.DataFrame([{**numbers, "invalid_empty": 0, "invalid_not_a_number": 1}])
    row = metric_row("structured", "alpha", "soft", "ood", W1, 0.25)
    write_fabricated(tmp_path, [row], samples=samples, per_prompt=per_prompt)
    payload = explorer_payload(read_evaluations(tmp_path), members, {"alpha": "Alpha", "beta": "Beta"}, CONDITIONS)
    assert set(payload["prompts"]) == {prompt.prompt_id for prompt in members} and payload["omitted"] == 0
    found = payload["results"]["alpha"]["soft"][poisson.prompt_id]
    assert list(payload["results"]) == ["alpha"] and list(payload["results"]["alpha"]) == ["soft"]
    assert found["samples"][0] == 0.25 and found["samples"][4] == 0.5 and sum(found["samples"]) == 0.75
    assert (found["n"], found["w1"], found["floor"], found["kl"]) == (5, 0.25, None, None)
    assert found["invalid"] == {"not_a_number": 1} and "exact" not in found


@pytest.fixture(scope="module")
def page(tmp_path_factory, params, prompts):
    root = tmp_path_factory.mktemp("evals")
    structured(root, "alpha", "base", 0.4, prompts[0])
    context = ReportContext(params, read_evaluations(root), prompts[0])
    table = Table("list", "A & b", ["Name", "n"], [["<a_b>", Cell("[1]", "(2)", "from \"x'")]], 1, pd.DataFrame())
    sections = [Section("structured", "Structured", "Numbers.", [table])]
    return report_page(context, sections, make_result(context), [], context.evaluations.provenance)


def test_tables_are_escaped(page):
    assert "<th class='left'>&lt;a_b&gt;</th>" in page and "[1]<small>(2)</small></td>" in page
    assert "title='from &#34;x&#39;'" in page


def test_one_file_that_asks_for_nothing_and_whose_anchors_exist(page):
    text = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    links = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert {link for link in links if link.startswith("http")} == {"https://arxiv.org/abs/2605.11845"}
    assert "<link" not in text and "@import" not in text and not re.search(r"<script[^>]+src", page)
    assert "default-src 'none'" in text and page.count("<script") == page.count("</script>") == 2
    assert all(f'id="{link[1:]}"' in text for link in links if link.startswith("#"))
    data = json.loads(re.search(r'id="explorer-data">(.*?)</script>', page, re.DOTALL)[1])
    assert set(data["results"]["alpha"]) == {"base"}


def test_embedded_data_cannot_end_its_element_and_holds_no_nan():
    assert json.loads(embedded_json({"text": "</script>"})) == {"text": "</script>"}
    assert "</script" not in embedded_json({"text": "</script><b>"})
    with pytest.raises(ValueError):
        embedded_json([math.nan])
