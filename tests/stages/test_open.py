"""score-open and eval_open on the tiny model: tables in the agreed form, baselines, and clear errors."""

import numpy as np
import pandas as pd
import pytest

from pipeline.artifacts.prompts import write_text_prompts
from pipeline.artifacts.storage import read_json, write_table
from pipeline.config.evaluation import BASELINES
from pipeline.config.params import load_params
from pipeline.core.prompts.open_ended import open_prompts
from pipeline.errors import ArtifactError
from tests.composition import write_changed
from tests.stages.conftest import run_stage, write_generations

REFERENCE_SIZE = 8
PROMPTS = [prompt for prompt in open_prompts() if prompt.category in ("city", "mammal", "weekday")]


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("open") / "open.parquet"
    write_text_prompts(path, PROMPTS)
    return path


@pytest.fixture(scope="module")
def scores(dag, prompts):
    directory = prompts.parent / "scores"
    for condition in ("base", "soft"):
        output = directory / f"{condition}.parquet"
        dag.run(f"score-open@embedded-{condition}", prompts=[prompts], output=output)
    return directory


@pytest.fixture
def evaluate(dag, prompts, scores, tmp_path):
    """Evaluate replies by condition, the same for every prompt; the last one's directory, metrics and failures."""

    def run(scores=scores, **replies):
        changes = {f"generate__{name}__enabled": name in replies for name in BASELINES}
        changes["conditions"] = [name for name in replies if name not in BASELINES]
        # Sizes that the expected numbers below are for.
        changes["generate__open__num_samples"] = REFERENCE_SIZE
        params = write_changed(dag.params, tmp_path / "params.yaml", **changes)
        for condition, texts in replies.items():
            same = dict.fromkeys((prompt.prompt_id for prompt in PROMPTS), texts)
            write_generations(tmp_path / "generations" / f"{condition}.parquet", same)
        paths = {"prompts": [prompts], "generations": tmp_path / "generations", "scores": scores}
        run_stage(params, "eval-open@embedded", **paths, output=tmp_path / "evals")
        output = tmp_path / "evals" / condition
        report = read_json(output / "metrics.json")
        metrics = {row["metric"]: row for row in report["metrics"]}
        assert len(metrics) == len(report["metrics"])
        return output, metrics, report["failures"]

    return run


def test_scores_are_the_models_own_laws_behind_the_chat_template(dag, scores):
    import torch

    from pipeline.engines.loading.conditioned_model import open_model

    table = pd.read_parquet(scores / "soft.parquet")
    assert table["prompt_id"].tolist() == [prompt.prompt_id for prompt in PROMPTS]
    config = load_params(dag.params).models["embedded"]
    report = dag.path("score-open@embedded-soft", "model_report")
    opened = open_model(config, report, dag.path("train-soft@embedded"), "probe")
    with torch.inference_mode():
        ids = torch.tensor([opened.encode(PROMPTS[0].text)], device=opened.device)
        law = torch.softmax(opened.model(input_ids=ids).logits[0, -1].double(), dim=-1).cpu().numpy()
    row = table.iloc[0]
    np.testing.assert_allclose(row["probabilities"], law[row["token_ids"]], rtol=1e-4)
    assert row["entropy_nats"] == pytest.approx(-(law * np.log(law)).sum(), rel=1e-5)
    assert row["vocabulary"] == len(law)


def test_evaluation(evaluate):
    texts = ["Paris", " paris\nbecause", '"Paris"', "Rome", "", "<think>Rome"]
    output, metrics, failures = evaluate(base=texts)
    assert {path.name for path in output.iterdir()} == {
        "metrics.json",
        "per_prompt.parquet",
        "provenance.json",
        "answers.parquet",
    }
    assert failures == {"open": {"unclosed_reasoning": 3, "empty": 3}}
    assert all(
        (row["axis"], row["model"], row["condition"], row["split"]) == ("open", "embedded", "base", "open")
        for row in metrics.values()
    )
    assert metrics["unique_fraction"]["value"] == pytest.approx(3 / 6) and metrics["unique_fraction"]["n"] == 3
    assert metrics["valid_rate"]["value"] == pytest.approx(4 / 6)
    per_prompt = pd.read_parquet(output / "per_prompt.parquet")
    assert per_prompt["category"].tolist() == ["city", "mammal", "weekday"]
    assert (per_prompt["num_samples"] == 6).all()
    answers = pd.read_parquet(output / "answers.parquet")
    city = answers[answers["category"] == "city"]
    assert list(zip(city["answer"], city["count"], strict=True)) == [("Paris", 2), ("Rome", 1), ("paris", 1)]


def test_ssot_answers_are_extracted(evaluate):
    texts = [
        "<seed>x</seed><answer>Oslo</answer>",
        "<answer>\nOslo\n</answer>",
        "Oslo",
        "<answer>",
        "<answer></answer>",
    ]
    output, metrics, failures = evaluate(base=["Oslo"], ssot=texts)
    assert failures == {"open": {"empty": 3, "no_answer": 3, "unclosed_answer": 3}}
    assert metrics["unique_fraction"]["value"] == pytest.approx(1 / 5)
    assert "top_p_support_size" not in metrics
    assert pd.read_parquet(output / "per_prompt.parquet")["top_p_support_size"].isna().all()


def test_missing_prompts_are_named(evaluate, scores, tmp_path):
    laws = pd.read_parquet(scores / "base.parquet")
    write_table(tmp_path / "laws" / "base.parquet", laws.iloc[1:])
    with pytest.raises(ArtifactError, match=rf"laws/base\.parquet has no rows for the prompt {PROMPTS[0].prompt_id}"):
        evaluate(base=["Paris"], scores=tmp_path / "laws")
    with pytest.raises(ArtifactError, match=r"laws/soft\.parquet does not exist"):
        evaluate(soft=["Paris"], scores=tmp_path / "laws")
