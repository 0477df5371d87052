"""Laws of one's own through their stages, by the commands of docs/your_own_law.md, on the tiny model."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.artifacts.prompts import read_prompts
from pipeline.compose import compose_params, write_files
from pipeline.config.params import load_params
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.engines.loading.model import next_log_probabilities
from tests.conftest import ROOT, TINY_OVERRIDES
from tests.stages.conftest import Dag

pytestmark = pytest.mark.slow
TINY = [text for text in TINY_OVERRIDES if not text.startswith(("prompts.", "methods="))]


def blocks() -> list[str]:
    """The commands of the tutorial, block by block."""
    return re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "your_own_law.md").read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def mine(tmp_path_factory) -> Path:
    """The tutorial's table and law, where its commands wrote them."""
    directory = tmp_path_factory.mktemp("mine")
    for script in blocks()[:2]:
        subprocess.run(["bash", "-ec", script], cwd=directory, check=True, capture_output=True)
    return directory / "data" / "mine"


@pytest.fixture(scope="module")
def tutorial(mine, tiny_model, tmp_path_factory):
    """The tutorial's files and settings; the DAG is run here. Its laws need no bins."""
    directory = tmp_path_factory.mktemp("laws")
    (directory / "data").mkdir()
    (directory / "data" / "mine").symlink_to(mine)
    for name in ("pipeline", "conf", "data/published"):
        (directory / name).symlink_to(ROOT / name)
    settings = blocks()[2]
    words = shlex.split(settings)
    assert words[:2] == ["make", "params"] and words[-2:] == ["make", "repro"]
    chosen = dict(word.split("=", 1) for word in words[2:4])
    overrides = [
        f"experiment={chosen['EXPERIMENT']}",
        *chosen["OVERRIDES"].split(),
        *(override for override in TINY if not override.startswith("axes=")),
        *("discretize.soft.max_bins=null", "discretize.hard.max_bins=null"),
        "generate.structured={num_samples:4,max_new_tokens:20,batch_size:4}",
        f"models.embedded.checkpoint={tiny_model}",
        f"artifacts={directory / 'artifacts'}",
        f"reports={directory / 'reports'}",
    ]
    write_files(directory, compose_params(ROOT / "conf", overrides), overrides)
    dag = Dag(directory / "params.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        dag.run("build-prompts")
        dag.run("check-model@embedded", "build-tries@embedded-soft")
        dag.pass_preflight()
        dag.run("train-soft@embedded", "train-hard@embedded")
        for condition in ("base", "soft", "hard"):
            dag.run(*(f"{part}-laws@embedded-{condition}" for part in ("generate", "exact")))
        dag.run("eval-laws@embedded")
    return dag


def test_the_exact_figures_are_those_of_the_model_asked_token_by_token(tutorial):
    exact = pd.read_parquet(tutorial.path("exact-laws@embedded-soft")).set_index("prompt_id")
    prompt = read_prompts(tutorial.root / "prompts" / "laws.parquet")[-1]
    params = load_params(tutorial.params)
    adapter = tutorial.root / "adapters" / "embedded" / "soft"
    opened = open_model(params.models["embedded"], tutorial.root / "models" / "embedded.json", adapter, prompt.text)
    context, total, distance = opened.encode(prompt.text), 0.0, 0.0
    for text, probability in zip(prompt.law.strings, prompt.law.probabilities, strict=True):
        ids = [*opened.tokenizer(text, add_special_tokens=False)["input_ids"], opened.tokenizer.eos_token_id]
        log = sum(
            float(next_log_probabilities(opened.model, [context + ids[:place]])[0][token])
            for place, token in enumerate(ids)
        )
        total += np.exp(log)
        distance += abs(np.exp(log) - probability)
    row = exact.loc[prompt.prompt_id]
    assert row["law_exact_total_variation"] == pytest.approx((distance + 1 - total) / 2, rel=1e-3)


def test_each_condition_is_evaluated_on_both_kinds_of_templates(tutorial):
    for condition in ("base", "soft", "hard"):
        rows = pd.DataFrame(json.loads((tutorial.evals("laws", condition) / "metrics.json").read_text())["metrics"])
        assert set(rows["split"]) == {"seen_template", "held_out_template"} and set(rows["axis"]) == {"laws"}
        valid = rows[(rows["metric"] == "law_valid_rate") & (rows["family"] == "lunch")].set_index("split")
        assert valid.loc["seen_template", "n"] == 9 * 4 and valid.loc["held_out_template", "n"] == 3 * 4
        assert {"law_total_variation", "law_exact_total_variation"} <= set(rows["metric"])
    assert not (tutorial.root / "prompts" / "unseen.parquet").exists() or not len(read_prompts(*tutorial.prompts))


def test_the_report_shows_the_law_and_its_tests(tutorial, tmp_path, monkeypatch):
    monkeypatch.chdir(tutorial.params.parent)
    tutorial.report(tmp_path / "reports")
    table = pd.read_csv(tmp_path / "reports" / "tables" / "laws.csv")
    assert list(table["condition"].unique()) == ["base", "soft", "hard"] and set(table["law"]) == {"lunch"}
    assert set(table["metric"]) == {"law_total_variation"} and table["exact"].between(0, 1).all()
    page = (tmp_path / "reports" / "index.html").read_text()
    assert "Laws of one's own" in page or "Laws of one&#39;s own" in page
