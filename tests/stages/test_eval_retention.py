"""import-irt and eval_retention on files written by hand, and their errors."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

from pipeline.artifacts.irt_artifact import FIELDS, read_irt, write_irt
from pipeline.artifacts.storage import read_json, read_table, sha256_file, write_table
from pipeline.config.retention import TINY_TASKS
from pipeline.core.retention.tasks import COLUMNS, METRICS
from pipeline.errors import ArtifactError, ConfigError
from scripts.make_irt_artifact import synthetic_content
from tests.composition import write_changed
from tests.conftest import ROOT
from tests.stages.conftest import run_stage


def with_settings(params, path, **retention):
    """A params.yaml with other settings of the retention section."""
    return write_changed(params, path, **{f"retention__{name}": value for name, value in retention.items()})


def convert(params, output):
    run_stage(params, "import-irt", output=output)


@pytest.fixture
def published(tmp_path):
    path = tmp_path / "tinyBenchmarks.pkl"
    path.write_bytes(pickle.dumps(synthetic_content()))
    return path


def test_pickle_and_npz_give_the_same_parameters(tiny_params, tmp_path, published):
    digest, first, second = sha256_file(published), tmp_path / "a" / "irt.npz", tmp_path / "b" / "irt.npz"
    convert(with_settings(tiny_params, tmp_path / "p.yaml", irt_artifact=str(published), irt_sha256=digest), first)
    convert(with_settings(tiny_params, tmp_path / "q.yaml", irt_artifact=str(first), irt_sha256=None), second)
    one, two = read_irt(first), read_irt(second)
    for name in one.keys() | two.keys():
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(one[name], field), getattr(two[name], field))
    record = json.loads(first.with_suffix(".provenance.json").read_text())
    assert record["num_items"]["mmlu"] == 1000 and record["num_seen"]["gsm8k"] == 100
    params = with_settings(tiny_params, tmp_path / "p.yaml", irt_artifact=str(first), irt_sha256="ab" * 32)
    with pytest.raises(ArtifactError, match=f"irt.npz .*{sha256_file(first)}"):
        convert(params, tmp_path / "out.npz")
    assert not (tmp_path / "out.npz").exists()


def test_a_pickle_without_known_hash_and_a_missing_file_are_refused(tiny_params, tmp_path, published):
    params = with_settings(tiny_params, tmp_path / "p.yaml", irt_artifact=str(published), irt_sha256=None)
    with pytest.raises(ConfigError, match="irt_sha256 is null"):
        convert(params, tmp_path / "out.npz")
    params = with_settings(tiny_params, tmp_path / "p.yaml", irt_artifact=str(tmp_path / "none.pkl"))
    with pytest.raises(ArtifactError, match=r"none\.pkl \(retention\.irt_artifact\) does not exist"):
        convert(params, tmp_path / "out.npz")


def test_an_npz_file_without_a_scenario_is_refused(tiny_params, tmp_path):
    scenarios = read_irt(ROOT / "data" / "irt.npz")
    del scenarios["gsm8k"]
    write_irt(tmp_path / "four.npz", scenarios)
    params = with_settings(tiny_params, tmp_path / "q.yaml", irt_artifact=str(tmp_path / "four.npz"), irt_sha256=None)
    with pytest.raises(ArtifactError, match=r"four\.npz has no scenario 'gsm8k'"):
        convert(params, tmp_path / "out.npz")


def scores(path, seed, prompt_format="chat", whole=0):
    """A file of random answers to all five tasks under every metric, shuffled; and to ``whole`` problems of GSM8K."""
    path.parent.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    rows = [
        {
            "task": task,
            "item": item,
            "metric": metric,
            "details": json.dumps({"answer": "3 + 4 = 7" if item % 4 == 0 else "7", "num_tokens": 5 + 2 * item + seed}),
            "prompt_format": prompt_format,
            "value": rng.random() if metric == "mc2" else float(rng.random() < 0.6),
        }
        for task, metrics in METRICS.items()
        for metric in metrics
        for item in range(100 if task in TINY_TASKS else whole)
    ]
    write_table(path, pd.DataFrame(rows).sample(frac=1, random_state=seed))
    return path


@pytest.fixture
def files(tiny_params, tmp_path):
    params = with_settings(
        tiny_params, tmp_path / "p.yaml", irt_artifact=str(ROOT / "data/irt.npz"), tasks=list(TINY_TASKS)
    )
    convert(params, tmp_path / "irt.npz")
    write_changed(params, params, conditions=["base", "soft"])
    scores(tmp_path / "scores" / "base.parquet", 0)
    own = scores(tmp_path / "scores" / "soft.parquet", 1)
    paths = {"scores": tmp_path / "scores", "irt": tmp_path / "irt.npz", "output": tmp_path / "evals"}
    return params, paths, own


def evaluate(params, paths, condition="soft"):
    """Metrics of a condition."""
    run_stage(params, "eval-retention@embedded", **paths)
    return read_json(paths["output"] / condition / "metrics.json")["metrics"]


def test_evaluation_directory(files):
    params, paths, own = files
    metrics = evaluate(params, paths)
    found = {(row["split"], row["metric"]): row for row in metrics}
    assert {(row["axis"], row["condition"]) for row in metrics} == {("retention", "soft")}
    table = read_table(own, ("task",))
    for column, (task, metric) in COLUMNS.items():
        values = table[(table["task"] == task) & (table["metric"] == metric)]["value"]
        assert found[column, "accuracy"]["value"] == pytest.approx(values.mean())
        assert found[column, "gp_irt"]["ci_low"] < found[column, "gp_irt"]["value"] < found[column, "gp_irt"]["ci_high"]
    output = paths["output"] / "soft"
    items = read_table(output / "per_prompt.parquet", ("split", "item", "value"))
    assert len(items) == 600
    record = read_json(output / "provenance.json")
    assert record["prompt_format"] == "chat"


@pytest.mark.parametrize("conditions", [["base", "soft"], ["soft"]])
def test_without_another_condition_there_is_nothing_to_compare(files, conditions):
    params, paths, _ = files
    write_changed(params, params, conditions=conditions)
    metrics = evaluate(params, paths, conditions[0])
    assert {"gp_irt", "answer_tokens_mean"} <= {row["metric"] for row in metrics}
    assert all(row["change"] is None for row in metrics)


def test_missing_items_and_impossible_values_are_named(files):
    params, paths, own = files
    table = read_table(own, ("task", "value"))
    write_table(own, table[~((table["task"] == "tinyWinogrande") & (table["item"] == 17))])
    with pytest.raises(ArtifactError, match=r"soft\.parquet has 99 values of tinyWinogrande under acc_norm"):
        evaluate(params, paths)
    table.loc[table["metric"] == "mc2", "value"] = float("nan")
    write_table(own, table)
    with pytest.raises(ArtifactError, match=r"soft\.parquet has values of tinyTruthfulQA under mc2 outside \[0, 1\]"):
        evaluate(params, paths)
    table.loc[table["metric"] == "acc_norm", "value"] = 0.5
    write_table(own, table)
    with pytest.raises(ArtifactError, match=r"tinyMMLU under acc_norm that are neither 0 nor 1"):
        evaluate(params, paths)
    assert not paths["output"].exists()


def test_prompt_formats_are_not_mixed(files):
    params, paths, own = files
    scores(own, 1, "plain")
    with pytest.raises(ArtifactError, match=r"one prompt format; found: chat in .*base\.parquet, plain in .*soft\.pa"):
        evaluate(params, paths)


def test_the_whole_of_gsm8k_has_an_accuracy_and_enters_no_mean(files, tmp_path):
    params, paths, _ = files
    for seed, name in enumerate(("base", "soft")):
        scores(paths["scores"] / f"{name}.parquet", seed, whole=1319)

    def found(tasks):
        metrics = evaluate(with_settings(params, tmp_path / "tasks.yaml", tasks=tasks), paths)
        return {(row["split"], row["metric"]): row for row in metrics}

    tiny, both = found(list(TINY_TASKS)), found([*TINY_TASKS, "gsm8k"])
    assert {key: both[key] for key in tiny} == tiny
    row = both["GSM8K (flexible)", "accuracy"]
    # 0.6 with an interval of a binomial of 1,319, not of 100.
    assert row["n"] == 1319 and 0.9 < (row["ci_high"] - row["ci_low"]) / (2 * 1.96 * (0.24 / 1319) ** 0.5) < 1.1
    # Alone it is what all tasks together are.
    alone = found(["gsm8k"])
    assert alone["GSM8K (flexible)", "accuracy"] == row
    assert alone["all", "accuracy"]["value"] == row["value"] and ("all", "gp_irt") not in alone


def test_how_answers_are(files):
    params, paths, own = files
    metrics = evaluate(params, paths)
    found = {row["metric"]: row for row in metrics if row["split"] == "tinyGSM8k"}
    # 6, 8, ... 204 tokens; the base's answers have one less.
    tokens, steps = found["answer_tokens_mean"], found["answer_derivation_share"]
    assert len(found) == 2 and tokens["n"] == steps["n"] == 100
    changes = [tokens[name] for name in ("value", "change", "change_low", "change_high")]
    assert changes == pytest.approx([105.0, 1.0, 1.0, 1.0])
    assert (steps["value"], steps["change"]) == pytest.approx((0.25, 0.0))
    write_table(own, read_table(own, ("details",)).assign(details="{}"))
    with pytest.raises(ArtifactError, match=r"soft\.parquet: the details of an answer to tinyGSM8k cannot be read"):
        evaluate(params, paths)
