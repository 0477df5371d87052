"""Methods of several terms through their stages, and the divergence from the base checkpoint."""

import json
import shutil

import pandas as pd
import pytest

from pipeline.artifacts.prompts import read_text_prompts
from pipeline.compose import compose_params, write_files
from pipeline.config.params import load_params
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.engines.loading.model import next_log_probabilities
from tests.conftest import ROOT, TINY_OVERRIDES
from tests.stages.conftest import Dag

pytestmark = pytest.mark.slow
METHODS = ("anchored", "mixed")


@pytest.fixture(scope="module")
def methods(dag, tmp_path_factory) -> Dag:
    """A copy of the shared DAG with further methods, trained for the same few steps."""
    params = load_params(dag.params)
    artifacts = shutil.copytree(params.artifacts, tmp_path_factory.mktemp("methods") / "artifacts")
    overrides = [
        *TINY_OVERRIDES,
        f"artifacts={artifacts}",
        f"models.embedded.checkpoint={params.models['embedded'].checkpoint}",
        "+method@methods.anchored=anchored",
        "+method@methods.mixed=mixed",
        "conditions=[base,anchored]",
    ]
    directory = dag.params.parent / "methods"
    directory.mkdir()
    write_files(directory, compose_params(ROOT / "conf", overrides), overrides)
    found = Dag(directory / "params.yaml")
    found.run("sample-instructions@embedded-base")
    for name in METHODS:
        found.run(f"train-mixed@embedded-{name}")
    return found


def log_of(dag, name):
    return [json.loads(line) for line in (dag.root / "adapters" / "embedded" / name / "train_log.jsonl").open()]


def test_each_method_has_its_terms(methods):
    soft = log_of(methods, "soft")
    anchored, mixed = (log_of(methods, name) for name in METHODS)
    assert len(anchored) == len(soft)
    # The same first step: the same initial adapter, prompts and paths, and a divergence of 0.
    assert anchored[0]["loss/soft"] == pytest.approx(soft[0]["loss"], rel=1e-5)
    assert anchored[0]["loss/anchors"] == pytest.approx(0, abs=1e-6)
    assert {name for name in mixed[0] if name.startswith("loss/")} == {"loss/soft", "loss/hard", "loss/anchors"}
    assert mixed[0]["weight/soft"] == mixed[0]["weight/hard"] == 0.5
    # Between the steps of soft and those of hard.
    hard = log_of(methods, "hard")
    assert len(mixed) == round((len(soft) + len(hard)) / 2)


@pytest.fixture(scope="module")
def metrics(methods) -> pd.DataFrame:
    """The metrics of base and anchored, behind one evaluation."""
    steps = ("generate-anchors", "score-anchors")
    methods.run(
        *(f"{step}@embedded-{name}" for name in ("base", "anchored") for step in steps), "eval-anchors@embedded"
    )
    paths = [methods.evals("anchors", name) / "metrics.json" for name in ("base", "anchored")]
    return pd.DataFrame([row for path in paths for row in json.loads(path.read_text())["metrics"]])


def test_divergences_are_those_of_the_laws_written_out(methods, metrics):
    params = load_params(methods.params)
    report, name = methods.root / "models" / "embedded.json", methods.root / "adapters" / "embedded" / "anchored"
    prompts = {p.prompt_id: p for p in read_text_prompts(methods.root / "prompts" / "anchors.parquet")}
    opened = open_model(params.models["embedded"], report, name, "x")
    generations = {
        "forward": pd.read_parquet(methods.generations("base", "anchors")),
        "reverse": pd.read_parquet(methods.generations("anchored", "anchors")),
    }
    scores = pd.read_parquet(methods.path("score-anchors@embedded-anchored"))
    assert len(scores) == 2 * 2 * len(prompts)
    for direction, table in generations.items():
        for row in table.head(3).itertuples():
            context = opened.encode(prompts[row.prompt_id].text)
            reply = opened.tokenizer(row.text, add_special_tokens=False)["input_ids"]
            reply += [opened.tokenizer.eos_token_id] if row.finish_reason == "stop" or not reply else []
            total = 0.0
            for length in range(len(reply)):
                own = next_log_probabilities(opened.model, [context + reply[:length]])[0]
                with opened.model.disable_adapter():
                    base = next_log_probabilities(opened.model, [context + reply[:length]])[0]
                first, second = (base, own) if direction == "forward" else (own, base)
                total += float((first.exp() * (first - second)).sum())
            found = scores[
                (scores["prompt_id"] == row.prompt_id)
                & (scores["direction"] == direction)
                & (scores["sample_index"] == row.sample_index)
            ].iloc[0]
            assert found["num_tokens"] == len(reply)
            assert found["divergence_nats"] == pytest.approx(total, rel=1e-3, abs=1e-7)
    rows = metrics[metrics["condition"] == "anchored"]
    kinds = {prompt.category for prompt in prompts.values()}
    assert set(rows["split"]) == {"all", *kinds} and set(rows["metric"]) == {"anchor_kl_nats", "anchor_reverse_kl_nats"}
    forward = scores[scores["direction"] == "forward"]
    whole = rows[(rows["split"] == "all") & (rows["metric"] == "anchor_kl_nats")].iloc[0]
    assert whole["value"] == pytest.approx(forward["divergence_nats"].sum() / forward["num_tokens"].sum())
    assert whole["ci_low"] < whole["value"] < whole["ci_high"] and whole["n"] == len(prompts)
    assert whole["change"] == whole["value"]


def test_the_base_checkpoint_is_no_distance_from_itself(metrics):
    values = metrics.loc[metrics["condition"] == "base", "value"]
    assert len(values) and (values == 0).all()
