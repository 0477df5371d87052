"""Questions through their stages: samples under several settings, their classes, and the axes human and semcal."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from safetensors.numpy import load_file, save_file

from pipeline.artifacts.prompts import read_questions
from pipeline.core.semantics.partition import known_classes, normalise
from pipeline.demo.stand_ins.evaluators import save_judge
from pipeline.errors import ArtifactError
from pipeline.metrics.registry import METRICS
from tests.conftest import ROOT
from tests.stages.conftest import Dag, run_stage

pytestmark = pytest.mark.slow
QUESTIONS = ("open-coin-side", "capital-france", "symbol-iron", "is-dolphin-fish", "open-season", "capital-italy")
CHOICE = "choice-fruit"


def answering(directory, values) -> Dag:
    """The DAG of ``values``, with the base checkpoint's answers and their classes."""
    (directory / "params.yaml").write_text(yaml.safe_dump(values))
    dag = Dag(directory / "params.yaml")
    dag.run("build_prompts", "build_questions@questions", "check_model@embedded")
    preflight = dag.root / "preflight" / "embedded.json"
    preflight.parent.mkdir(parents=True)
    preflight.write_text("{}")
    dag.run("generate_questions@embedded-base", "partition_questions@embedded-base")
    return dag


@pytest.fixture(scope="module")
def answered(tiny_params, tmp_path_factory) -> Dag:
    """A DAG of its own with a few questions and the embedded model's answers to them."""
    directory = tmp_path_factory.mktemp("answered")
    values = yaml.safe_load(tiny_params.read_text())
    lines = (ROOT / "data" / "questions.jsonl").read_text().splitlines()
    chosen = [line for line in lines if json.loads(line)["prompt_id"] in QUESTIONS]
    (directory / "questions.jsonl").write_text("\n".join(chosen))
    values["artifacts"] = str(directory / "artifacts")
    values["prompts"]["questions"] |= {"source": str(directory / "questions.jsonl"), "max_prompts": None}
    values["models"]["embedded"]["checkpoint"] = str(ROOT / "models" / "embedded")
    settings = {"cold": {"temperature": 0.05, "top_p": 1.0, "top_k": None}}
    values["generate"]["questions"] |= {"num_samples": 20, "max_new_tokens": 8, "batch_size": 64, "settings": settings}
    return answering(directory, values)


@pytest.fixture(scope="module")
def partition(answered):
    return pd.read_parquet(answered.path("partition_questions@embedded-base"))


def metrics_of(directory):
    table = pd.DataFrame(json.loads((directory / "metrics.json").read_text())["metrics"])
    return table.set_index(["split", "metric"])


def test_every_setting_has_its_samples_and_its_temperature(answered, partition):
    generations = pd.read_parquet(answered.generations("base", "questions"))
    assert generations.groupby(["prompt_id", "setting"]).size().to_dict() == {
        (name, setting): 20 for name in QUESTIONS for setting in ("cold", "default")
    }
    assert not generations.duplicated(["prompt_id", "setting", "sample_index"]).any()
    assert generations["seed"].nunique() == len(generations)
    # Almost greedy: hardly more than one answer.
    texts = generations.groupby(["setting", "prompt_id"])["text"].nunique().groupby("setting").mean()
    assert texts["cold"] < 1.5 < texts["default"]
    assert len(partition) == len(generations)


def test_the_embedded_model_answers_in_part(partition):
    default = partition[partition["setting"] == "default"]
    shares = default.assign(known=default["label"].isin(["heads", "tails"])).groupby("prompt_id")["known"].mean()
    assert shares["open-coin-side"] > 0.8
    # The class of a text is one, whatever its setting.
    assert (
        partition.assign(key=partition["answer"].map(normalise)).groupby(["prompt_id", "key"])["label"].nunique() == 1
    ).all()


def test_a_judge_of_entailment_merges_classes_and_is_asked_once(answered, partition, tmp_path):
    values = yaml.safe_load(answered.params.read_text())
    nli = save_judge(tmp_path / "nli")
    weights = load_file(nli / "model.safetensors")
    # Finds everything to say the same.
    weights["classifier.bias"][:] = [0, 0, 1000]
    save_file(weights, nli / "model.safetensors", metadata={"format": "pt"})
    judge = {"checkpoint": str(nli), "revision": None, "dtype": "float32", "strict": False}
    judge |= {"max_tokens": 64, "tokens_per_pass": 4096}
    values["evaluate"]["partition"] = {"rule": "entailment", "judge": judge}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    records = []
    for name in ("first", "second"):
        output, cache = tmp_path / name / "out.parquet", tmp_path / "cache.sqlite"
        output.parent.mkdir()
        run_stage(tmp_path / "params.yaml", "partition_questions@embedded-base", output=output, cache=cache)
        found = pd.read_parquet(output)
        records.append(json.loads(output.with_suffix(".provenance.json").read_text()))
    first, second = records
    assert first["judge_calls"] > 0 == second["judge_calls"] and second["cache_hits"] >= first["judge_calls"]
    # What the table of spellings knows stays, the rest joins the first class that the judge finds to say the same.
    moved = found[found["label"] != partition["label"]]
    classes = {
        question.prompt_id: list(known_classes(question, "aliases"))
        for question in read_questions(answered.path("build_questions@questions"))
    }
    assert len(moved) and (moved["label"] == [classes[name][0] for name in moved["prompt_id"]]).all()
    assert not any(
        label in classes[name]
        for name, label in partition.loc[moved.index, ["prompt_id", "label"]].itertuples(index=False)
    )
    assert found.apply(lambda row: row["label"] in classes[row["prompt_id"]], axis=1).all()
    assert (found["answer"].fillna("") == partition["answer"].fillna("")).all()


def test_agreement_and_calibration_of_base(answered):
    answered.run("eval_human@embedded-base", "eval_semcal@embedded-base")
    human, semcal = (metrics_of(answered.evals(axis, "base")) for axis in ("human", "semcal"))
    for table in (human, semcal):
        assert set(table.index.get_level_values("split")) == {"all", "cold"}
        assert {METRICS[name].axis for name in table.index.get_level_values("metric")} == {table["axis"].iloc[0]}
    tv = human.loc[("all", "human_tv")]
    assert 0 < tv["floor"] < tv["value"] <= 1 and tv["n"] == len(QUESTIONS)
    assert tv["ci_low"] <= tv["value"] <= tv["ci_high"]
    # One answer is further from people than several.
    assert human.loc[("cold", "human_tv"), "value"] > tv["value"]
    assert human.loc[("all", "human_tv_difference"), "value"] == 0
    confidence = "semcal_people_confidence"
    assert semcal.loc[("all", "semcal_accuracy"), "n"] == 4
    assert semcal.loc[("all", "semcal_people_accuracy"), "n"] == len(QUESTIONS)
    assert semcal.loc[("cold", confidence), "value"] > semcal.loc[("all", confidence), "value"]
    assert semcal.loc[("all", "semcal_smooth_ece"), "floor"] > 0
    classes = pd.read_parquet(answered.evals("human", "base") / "classes.parquet")
    assert classes.groupby("prompt_id")["answers"].sum().eq(20).all()
    diagrams = pd.read_parquet(answered.evals("semcal", "base") / "reliability.parquet")
    assert diagrams.groupby(["split", "target"])["size"].sum().to_dict() == {
        (split, target): size for split in ("all", "cold") for target, size in (("gold", 4), ("people", 6))
    }


def test_a_condition_that_answers_as_people_do_is_better_than_base(answered, partition, tmp_path):
    rng = np.random.default_rng(0)
    people = partition.copy()
    for question in read_questions(answered.path("build_questions@questions")):
        labels = [item.label for item in question.human]
        weights = np.array([item.count for item in question.human]) / sum(item.count for item in question.human)
        own = people["prompt_id"] == question.prompt_id
        people.loc[own, "label"] = rng.choice(labels, size=own.sum(), p=weights)
    people.to_parquet(tmp_path / "people.parquet")
    found = {}
    for axis in ("human", "semcal"):
        answered.run(f"eval_{axis}@embedded-soft", partitions=tmp_path / "people.parquet", output=tmp_path / axis)
        found[axis] = metrics_of(tmp_path / axis).loc["all"]
    change = found["human"].loc["human_tv_difference"]
    assert change["value"] < 0 and found["human"].loc["human_tv", "value"] < 2 * found["human"].loc["human_tv", "floor"]
    assert found["semcal"].loc["semcal_people_smooth_ece_difference", "value"] < 0


def test_the_set_of_laws_of_base(answered):
    answered.run("eval_credal@embedded-base")
    found = metrics_of(answered.evals("credal", "base")).loc["all"]
    assert found.loc["credal_distance", "value"] <= found.loc["credal_nearest_member", "value"] + 1e-9
    assert found.loc["credal_between_entropy_nats", "value"] > 0
    assert found.loc["credal_distance_difference", "value"] == 0
    assert found.loc["credal_imprecision_nats", "n"] == len(QUESTIONS)


def test_uncertainty_of_base(answered):
    answered.run("score_questions@embedded-base", "eval_uncertainty@embedded-base")
    found = metrics_of(answered.evals("uncertainty", "base")).loc["all"]
    assert found.loc["uncertainty_semantic_entropy_raw_pearson", "n"] == len(QUESTIONS)
    assert found.loc["uncertainty_token_entropy_auroc", "n"] == 4
    assert found.loc["uncertainty_token_entropy_auroc_difference", "value"] == 0
    table = pd.read_parquet(answered.evals("uncertainty", "base") / "per_prompt.parquet").set_index("prompt_id")
    # Two sides of a coin are less certain than a capital that was learnt.
    for measure in ("semantic_entropy", "laplacian_eigenvalues", "token_entropy", "token_surprise", "top_5_entropy"):
        assert table.loc["open-season", measure] > table.loc["capital-france", measure]


def test_letters_of_options_have_a_law_and_a_class(answered, tmp_path):
    lines = (ROOT / "data" / "questions.jsonl").read_text().splitlines()
    chosen = [line for line in lines if json.loads(line)["prompt_id"] in (CHOICE, "capital-italy")]
    (tmp_path / "questions.jsonl").write_text("\n".join(chosen))
    values = yaml.safe_load(answered.params.read_text())
    values["artifacts"] = str(tmp_path / "artifacts")
    values["prompts"]["questions"]["source"] = str(tmp_path / "questions.jsonl")
    dag = answering(tmp_path, values)
    dag.run("score_questions@embedded-base", "eval_uncertainty@embedded-base")
    table = pd.read_parquet(dag.evals("uncertainty", "base") / "per_prompt.parquet").set_index("prompt_id")
    # The embedded model answers with letters where it is shown some.
    choice = table.loc[CHOICE]
    assert 0.5 < choice["choice_mass"] <= 1 and 0 <= choice["choice_entropy"] <= 1
    assert table.loc["capital-italy", ["choice_mass", "choice_entropy"]].isna().all()
    partition = pd.read_parquet(dag.path("partition_questions@embedded-base"))
    (question,) = [each for each in read_questions(dag.path("build_questions@questions")) if each.options]
    own = partition[(partition["prompt_id"] == CHOICE) & (partition["setting"] == "default")]
    assert own["label"].isin(question.options).mean() > 0.5
    # The law over letters is that of what is answered.
    scores = pd.read_parquet(dag.path("score_questions@embedded-base")).set_index("prompt_id")
    law = dict(zip(question.options, scores.loc[CHOICE, "choice_probabilities"], strict=True))
    shares = own["label"].value_counts(normalize=True)
    assert max(abs(law[option] - shares.get(option, 0.0)) for option in law) < 0.4


def test_a_question_without_answers_is_named(answered, partition, tmp_path):
    partition[partition["prompt_id"] != "symbol-iron"].to_parquet(tmp_path / "part.parquet")
    with pytest.raises(ArtifactError, match="has no answers to the question symbol-iron"):
        answered.run("eval_semcal@embedded-base", partitions=tmp_path / "part.parquet", output=tmp_path / "out")
