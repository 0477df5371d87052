"""import_irt and eval_retention on files written by hand, and their errors."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import yaml

from pipeline.artifacts.irt_artifact import FIELDS, read_irt, write_irt
from pipeline.artifacts.storage import read_json, read_table, sha256_file, write_table
from pipeline.config.retention import TINY_TASKS
from pipeline.core.retention.tasks import COLUMNS, METRICS
from pipeline.core.statistics.paired_tests import TEST_COLUMNS
from pipeline.errors import ArtifactError, ConfigError
from scripts.make_irt_artifact import synthetic_content
from tests.conftest import ROOT
from tests.stages.conftest import run_stage


def with_settings(params, path, **retention):
    """A params.yaml with other settings of the retention section."""
    content = yaml.safe_load(params.read_text())
    content["retention"].update(retention)
    path.write_text(yaml.safe_dump(content))
    return path


def convert(params, output):
    run_stage(params, "import_irt@retention", output=output)


@pytest.fixture
def published(tmp_path):
    path = tmp_path / "tinyBenchmarks.pkl"
    path.write_bytes(pickle.dumps(synthetic_content()))
    return path


def test_pickle_and_npz_give_the_same_parameters(tiny_params, tmp_path, published):
    digest, first, second = sha256_file(published), tmp_path / "a" / "irt.npz", tmp_path / "b" / "irt.npz"
    params = with_settings(tiny_params, tmp_path / "p.yaml", irt_artifact=str(published), irt_sha256=digest)
    convert(params, first)
    params = with_settings(tiny_params, tmp_path / "q.yaml", irt_artifact=str(first), irt_sha256=None)
    convert(params, second)
    one, two = read_irt(first), read_irt(second)
    assert list(one) == list(two)
    for name in one:
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(one[name], field), getattr(two[name], field))
    provenance, other = (json.loads(path.with_suffix(".provenance.json").read_text()) for path in (first, second))
    # A pickle is named by its hash among the parameters, and need not be there any more.
    assert provenance["parameters"] == {"retention.irt_artifact": str(published), "retention.irt_sha256": digest}
    assert list(provenance["inputs_sha256"]) == ["conf/retention"]
    assert other["inputs_sha256"] == {str(first): sha256_file(first)}
    assert provenance["num_items"]["mmlu"] == 1000 and provenance["num_seen"]["gsm8k"] == 100


@pytest.mark.parametrize("name", ["tinyBenchmarks.pkl", "irt.npz"])
def test_wrong_hash_names_file_and_both_hashes(tiny_params, tmp_path, name):
    (tmp_path / name).write_bytes(b"something else")
    params = with_settings(tiny_params, tmp_path / "p.yaml", irt_artifact=str(tmp_path / name), irt_sha256="ab" * 32)
    with pytest.raises(ArtifactError) as error:
        convert(params, tmp_path / "out.npz")
    for part in (name, sha256_file(tmp_path / name), "ab" * 32):
        assert part in str(error.value)
    assert not (tmp_path / "out.npz").exists()


def test_a_pickle_without_known_hash_and_a_missing_file_are_refused(tiny_params, tmp_path, published):
    params = with_settings(tiny_params, tmp_path / "p.yaml", irt_artifact=str(published), irt_sha256=None)
    with pytest.raises(ConfigError, match="irt_sha256 is null"):
        convert(params, tmp_path / "out.npz")
    params = with_settings(tiny_params, tmp_path / "p.yaml", irt_artifact=str(tmp_path / "none.pkl"))
    with pytest.raises(ArtifactError, match=r"none\.pkl \(retention\.irt_artifact\) does not exist"):
        convert(params, tmp_path / "out.npz")


def test_an_npz_file_without_a_scenario_is_refused(tiny_params, tmp_path, published):
    known = {"irt_artifact": str(published), "irt_sha256": sha256_file(published)}
    convert(with_settings(tiny_params, tmp_path / "p.yaml", **known), tmp_path / "irt.npz")
    scenarios = read_irt(tmp_path / "irt.npz")
    del scenarios["gsm8k"]
    write_irt(tmp_path / "four.npz", scenarios)
    params = with_settings(tiny_params, tmp_path / "q.yaml", irt_artifact=str(tmp_path / "four.npz"), irt_sha256=None)
    with pytest.raises(ArtifactError, match=r"four\.npz has no scenario 'gsm8k'"):
        convert(params, tmp_path / "out.npz")


def scores(path, seed, prompt_format="chat", whole=0):
    """Random answers to all five tasks under every metric, shuffled; and to ``whole`` problems of GSM8K."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "task": task,
            "item": item,
            "metric": metric,
            "details": json.dumps(
                {
                    "answer": "3 + 4 = 7" if item % 4 == 0 else "7",
                    "num_tokens": 5 + 2 * item + seed,
                    "finish_reason": "length" if item == 99 else "stop",
                }
            ),
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
    base, own = scores(tmp_path / "base.parquet", 0), scores(tmp_path / "soft.parquet", 1)
    return params, {"base_scores": base, "irt": tmp_path / "irt.npz", "output": tmp_path / "evals" / "soft"}, own


def evaluate(params, scores, condition="soft", **paths):
    run_stage(params, f"eval_retention@embedded-{condition}", scores=scores, **paths)


def test_evaluation_directory(files):
    params, common, own = files
    evaluate(params, own, **common)
    evaluation = read_json(common["output"] / "metrics.json")
    found = {(row["split"], row["metric"]): row for row in evaluation["metrics"]}
    assert {row["axis"] for row in evaluation["metrics"]} == {"retention"}
    for column, (task, metric) in COLUMNS.items():
        table = read_table(own, ("task",))
        values = table[(table["task"] == task) & (table["metric"] == metric)]["value"]
        assert found[column, "accuracy"]["value"] == pytest.approx(values.mean())
        assert found[column, "gp_irt"]["ci_low"] < found[column, "gp_irt"]["value"] < found[column, "gp_irt"]["ci_high"]
        assert 0 <= found[column, "p_irt"]["value"] <= 1.2
        assert {"gp_irt_difference", "accuracy_difference"} <= {name for split, name in found if split == column}
    assert found["all", "gp_irt_paper_mean"]["value"] != found["all", "gp_irt"]["value"]
    tests = read_table(common["output"] / "tests.parquet", TEST_COLUMNS)
    assert tests["split"].tolist() == [*COLUMNS, "all"]
    assert (tests["p_difference_adjusted"] >= tests["p_difference"]).all()
    assert set(tests["verdict"]) <= {"kept", "lost", "gained", "cannot tell"}
    items = read_table(common["output"] / "per_prompt.parquet", ("split", "item", "value", "base_value", "predicted"))
    assert len(items) == 600 and items["base_value"].notna().all()
    provenance = json.loads((common["output"] / "provenance.json").read_text())
    assert len(provenance["inputs_sha256"]) == 3 and provenance["parameters"]["tests.accuracy_margin"] > 0


def test_base_has_estimates_but_nothing_to_compare(files):
    params, common, _ = files
    evaluate(params, common["base_scores"], "base", **common)
    names = {row["metric"] for row in read_json(common["output"] / "metrics.json")["metrics"]}
    assert "gp_irt" in names and not any(name.endswith("_difference") for name in names)
    assert len(read_table(common["output"] / "tests.parquet", TEST_COLUMNS)) == 0


def test_some_tasks_only(files, tmp_path):
    params, common, own = files
    params = with_settings(params, tmp_path / "few.yaml", tasks=["tinyMMLU", "tinyGSM8k"])
    evaluate(params, own, **common)
    rows = read_json(common["output"] / "metrics.json")["metrics"]
    columns = {"tinyMMLU", "tinyGSM8k (strict)", "tinyGSM8k (flexible)", "all"}
    assert {row["split"] for row in rows} == {*columns, "tinyGSM8k"}
    evaluate(with_settings(params, tmp_path / "one.yaml", tasks=["tinyMMLU"]), own, **common)
    rows = read_json(common["output"] / "metrics.json")["metrics"]
    assert {row["split"] for row in rows} == {"tinyMMLU", "all"}


def test_missing_items_and_impossible_values_are_named(files, tmp_path):
    params, common, own = files
    table = read_table(own, ("task", "value"))
    short = tmp_path / "short.parquet"
    write_table(short, table[~((table["task"] == "tinyWinogrande") & (table["item"] == 17))])
    with pytest.raises(ArtifactError, match=r"short\.parquet has 99 values of tinyWinogrande under acc_norm"):
        evaluate(params, short, **common)
    table.loc[table["metric"] == "mc2", "value"] = float("nan")
    write_table(short, table)
    with pytest.raises(ArtifactError, match=r"short\.parquet has values of tinyTruthfulQA under mc2 outside \[0, 1\]"):
        evaluate(params, short, **common)
    table.loc[table["metric"] == "acc_norm", "value"] = 0.5
    write_table(short, table)
    with pytest.raises(ArtifactError, match=r"tinyMMLU under acc_norm that are neither 0 nor 1"):
        evaluate(params, short, **common)
    assert not common["output"].exists()


def test_prompt_formats_are_recorded_and_not_mixed(files, tmp_path):
    params, common, own = files
    evaluate(params, own, **common)
    assert json.loads((common["output"] / "provenance.json").read_text())["prompt_format"] == "chat"
    plain = scores(tmp_path / "plain.parquet", 1, "plain")
    with pytest.raises(ArtifactError, match=r"one prompt format; found: plain in .*plain\.parquet, chat in .*base\.pa"):
        evaluate(params, plain, **common)


def test_the_whole_of_gsm8k_has_an_accuracy_and_enters_no_mean(files, tmp_path):
    params, common, _ = files
    common["base_scores"], own = (scores(tmp_path / f"{seed}.parquet", seed, whole=1319) for seed in (0, 1))
    for gsm8k in ("once", "twice"):
        evaluate(with_settings(params, tmp_path / "tiny.yaml", gsm8k=gsm8k), own, **common)
        tiny = {(row["split"], row["metric"]): row for row in read_json(common["output"] / "metrics.json")["metrics"]}
        tests = read_table(common["output"] / "tests.parquet", TEST_COLUMNS).set_index("split")
        more = with_settings(params, tmp_path / "whole.yaml", tasks=[*TINY_TASKS, "gsm8k"], gsm8k=gsm8k)
        evaluate(more, own, **common)
        found = {(row["split"], row["metric"]): row for row in read_json(common["output"] / "metrics.json")["metrics"]}
        assert {key: found[key] for key in tiny} == tiny
        added = {("GSM8K (strict)", name) for name in ("accuracy", "accuracy_difference")}
        assert {key for key in found if key not in tiny and key[0] == "GSM8K (strict)"} == added
        row = found["GSM8K (flexible)", "accuracy"]
        # 0.6 with an interval of a binomial of 1,319, not of 100.
        assert row["n"] == 1319 and 0.9 < (row["ci_high"] - row["ci_low"]) / (2 * 1.96 * (0.24 / 1319) ** 0.5) < 1.1
        whole = read_table(common["output"] / "tests.parquet", TEST_COLUMNS).set_index("split")
        pd.testing.assert_frame_equal(whole.loc[tests.index], tests)
        assert list(whole.index) == [*COLUMNS, "GSM8K (strict)", "GSM8K (flexible)", "all"]
        assert (whole["p_difference_adjusted"] >= whole["p_difference"]).all()
        # Alone it has the same figures, and is what all tasks together are.
        evaluate(with_settings(params, tmp_path / "alone.yaml", tasks=["gsm8k"], gsm8k=gsm8k), own, **common)
        alone = {(row["split"], row["metric"]): row for row in read_json(common["output"] / "metrics.json")["metrics"]}
        by_column = {key: row for key, row in found.items() if key[0].startswith(("GSM8K", "gsm8k"))}
        assert alone == by_column | {
            ("all", name): by_column["GSM8K (flexible)", name] | {"split": "all"}
            for name in ("accuracy", "accuracy_difference")
        }
        only = read_table(common["output"] / "tests.parquet", TEST_COLUMNS).set_index("split")
        assert list(only.index) == ["GSM8K (strict)", "GSM8K (flexible)", "all"]
        assert (only["p_difference_adjusted"] == only["p_difference"]).all()
        assert only.loc["all", "verdict"] == only.loc["GSM8K (flexible)", "verdict"]
    table = read_table(own, ("task", "item"))
    write_table(tmp_path / "gap.parquet", table[~((table["task"] == "gsm8k") & (table["item"] == 700))])
    with pytest.raises(ArtifactError, match=r"1318 values of gsm8k under .*; accuracy needs one for each of the items"):
        evaluate(more, tmp_path / "gap.parquet", **common)


def test_how_answers_are(files, tmp_path):
    params, common, own = files
    evaluate(params, own, **common)
    rows = read_json(common["output"] / "metrics.json")["metrics"]
    found = {row["metric"]: row for row in rows if row["split"] == "tinyGSM8k"}
    # 6, 8, ... 204 tokens; the base's answers have one less.
    assert {name: row["value"] for name, row in found.items()} == pytest.approx(
        {
            "answer_tokens_mean": 105.0,
            "answer_tokens_median": 105.0,
            "answer_stop_share": 0.99,
            "answer_derivation_share": 0.25,
            "answer_tokens_mean_difference": 1.0,
            "answer_derivation_share_difference": 0.0,
        }
    )
    assert all(row["n"] == 100 and row["ci_low"] <= row["value"] <= row["ci_high"] for row in found.values())
    assert found["answer_tokens_mean_difference"]["ci_low"] == pytest.approx(1.0)
    answers = read_table(common["output"] / "answers.parquet", ("task", "item", "num_tokens", "ended", "derivation"))
    assert len(answers) == 100 and answers["ended"].sum() == 99 and answers["derivation"].sum() == 25
    evaluate(params, common["base_scores"], "base", **common)
    rows = read_json(common["output"] / "metrics.json")["metrics"]
    assert "answer_tokens_mean" in {row["metric"] for row in rows}
    assert not any(row["metric"].endswith("_difference") for row in rows)
    table = read_table(own, ("details",)).assign(details="{}")
    write_table(tmp_path / "old.parquet", table)
    with pytest.raises(ArtifactError, match=r"old\.parquet: the details of an answer to tinyGSM8k cannot be read"):
        evaluate(params, tmp_path / "old.parquet", **common)


def test_same_input_same_output(files):
    params, common, own = files
    written = []
    for _ in range(2):
        evaluate(params, own, **common)
        written.append((common["output"] / "metrics.json").read_text())
    assert written[0] == written[1]
