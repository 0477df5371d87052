"""Questions through their stages: samples under several settings, their classes, and the axes human and semcal."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml
from safetensors.numpy import load_file, save_file

from pipeline.artifacts.prompts import read_perturbations, read_questions, write_questions
from pipeline.axes.questions.classes import known_classes, normalise
from pipeline.config.params import load_params
from pipeline.demo.stand_ins.evaluators import save_judge
from pipeline.errors import ArtifactError
from pipeline.metrics.registry import METRICS
from tests.conftest import ROOT
from tests.stages.conftest import Dag, run_stage

pytestmark = pytest.mark.slow
QUESTIONS = ("open-season", "open-coin-side", "capital-france", "capital-italy", "symbol-iron", "is-dolphin-fish")
"""In the order of the file."""
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
    values["prompts"]["perturbations"] |= {"number": 3, "max_questions": None}
    settings = {"hot": {"temperature": 1.6, "top_p": 1.0, "top_k": None}}
    values["generate"]["perturbations"] |= {"num_samples": 3, "max_new_tokens": 8, "settings": settings}
    values["models"]["embedded"]["checkpoint"] = str(ROOT / "models" / "embedded")
    settings = {"cold": {"temperature": 0.05, "top_p": 1.0, "top_k": None}}
    sizes = {"num_samples": 20, "variants": 2, "max_new_tokens": 8, "batch_size": 64}
    values["generate"]["questions"] |= {**sizes, "settings": settings}
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
        (name, setting): 20 for name in QUESTIONS for setting in ("cold", "default", "variant1", "variant2")
    }
    assert not generations.duplicated(["prompt_id", "setting", "sample_index"]).any()
    assert generations["seed"].nunique() == len(generations)
    # Almost greedy: hardly more than one answer.
    texts = generations.groupby(["setting", "prompt_id"])["text"].nunique().groupby("setting").mean()
    assert texts["cold"] < 1.5 < texts["default"]
    assert len(partition) == len(generations)


def test_without_paraphrases_the_samples_are_the_same(answered, tmp_path):
    """And so they are with other settings beside them: a request's draws are its own."""
    values = yaml.safe_load(answered.params.read_text())
    warm = {"warm": {"temperature": 1.3, "top_p": 0.9, "top_k": 20}}
    values["generate"]["questions"] |= {
        "variants": 0,
        "settings": {**warm, **values["generate"]["questions"]["settings"]},
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    run_stage(tmp_path / "params.yaml", "generate_questions@embedded-base", output=tmp_path / "other.parquet")
    index = ["prompt_id", "setting", "sample_index"]
    own, other = (
        pd.read_parquet(path).set_index(index)[["seed", "text", "num_tokens"]]
        for path in (answered.generations("base", "questions"), tmp_path / "other.parquet")
    )
    assert set(other.index.get_level_values("setting")) == {"default", "cold", "warm"}
    kept = own[own.index.get_level_values("setting").isin(["default", "cold"])]
    pd.testing.assert_frame_equal(other.loc[kept.index], kept)


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
        paths = {"output": output, "cache": cache, "counts": output.with_name("counts.json")}
        run_stage(tmp_path / "params.yaml", "partition_questions@embedded-base", **paths)
        found = pd.read_parquet(output)
        records.append(json.loads(output.with_suffix(".provenance.json").read_text()))
    first, second = records
    assert first["judge_calls"] > 0 == second["judge_calls"] and second["cache_hits"] >= first["judge_calls"]
    # Counted with a full cache as with an empty one.
    counts = json.loads(paths["counts"].read_text())
    assert counts == {"judge_pairs": first["judge_pairs"], "judge_calls": first["judge_calls"]}
    given = found.dropna(subset="answer").groupby("prompt_id").size()
    assert counts["judge_pairs"] == (given * (given - 1)).sum() > 10 * counts["judge_calls"]
    answered.run("eval_human@embedded-base", counts=paths["counts"], output=tmp_path / "human")
    saved = metrics_of(tmp_path / "human").loc[("all", "judge_calls_saved"), "value"]
    assert saved == pytest.approx(1 - counts["judge_calls"] / counts["judge_pairs"])
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
    # Nobody was asked where spellings decide.
    assert not any("judge" in name for name in human.index.get_level_values("metric"))
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
    found, counts = {}, answered.path("partition_questions@embedded-base", "counts")
    for axis, more in (("human", {"counts": counts}), ("semcal", {})):
        paths = {"partitions": tmp_path / "people.parquet", "output": tmp_path / axis, **more}
        answered.run(f"eval_{axis}@embedded-soft", **paths)
        found[axis] = metrics_of(tmp_path / axis).loc["all"]
    change = found["human"].loc["human_tv_difference"]
    assert change["value"] < 0 and found["human"].loc["human_tv", "value"] < 2 * found["human"].loc["human_tv", "floor"]
    assert found["semcal"].loc["semcal_people_smooth_ece_difference", "value"] < 0


def test_the_set_of_laws_of_base(answered):
    answered.run("eval_credal@embedded-base")
    table = metrics_of(answered.evals("credal", "base"))
    assert set(table.index.get_level_values("split")) == {"all", "variants", "cold"}
    for split in ("all", "variants"):
        found = table.loc[split]
        assert found.loc["credal_distance", "value"] <= found.loc["credal_nearest_member", "value"] + 1e-9
        # Another wording is another question to the model.
        assert found.loc["credal_between_entropy_nats", "value"] > 0
        assert found.loc["credal_between_entropy_nats", "floor"] > 0
        assert found.loc["credal_distance_difference", "value"] == 0
        assert found.loc["credal_imprecision_nats", "n"] == len(QUESTIONS)
    per_prompt = pd.read_parquet(answered.evals("credal", "base") / "per_prompt.parquet")
    # All six have answers in classes; of one or two words, whose lengths may not vary.
    published = table.loc["cold"]
    assert published.loc["published_overlap", "n"].tolist() == [len(QUESTIONS)] * 4
    assert table.loc["all"].loc["published_decoding_share", "value"] > 0
    diversity = pd.read_parquet(answered.evals("credal", "base") / "diversity.parquet")
    assert set(diversity["source"]) == {"people", "all", "cold"} and len(diversity) == 3 * len(QUESTIONS)
    # Almost greedy.
    means = diversity.groupby("source")[["cosine_mean", "jaccard_mean", "type_token_ratio"]].mean()
    assert (means.loc["cold"] < means.loc["all"]).all()
    members = per_prompt.groupby("split")["num_members"].unique().map(list).to_dict()
    assert members == {"all": [2], "variants": [3]}
    members = pd.read_parquet(answered.evals("credal", "base") / "members.parquet")
    sizes = members.groupby(["kind", "member"])["count"].sum().to_dict()
    answers = 20 * len(QUESTIONS)
    assert sizes == {
        ("people", "people"): 100 * len(QUESTIONS),
        **{("settings", name): answers for name in ("cold", "default")},
        **{("variants", name): answers for name in ("variant1", "variant2")},
    }


def test_uncertainty_of_base(answered):
    answered.run("score_questions@embedded-base", "eval_uncertainty@embedded-base")
    found = metrics_of(answered.evals("uncertainty", "base")).loc["all"]
    assert found.loc["uncertainty_semantic_entropy_raw_pearson", "n"] == len(QUESTIONS)
    assert found.loc["uncertainty_token_entropy_auroc", "n"] == 4
    assert found.loc["uncertainty_token_entropy_auroc_difference", "value"] == 0
    table = pd.read_parquet(answered.evals("uncertainty", "base") / "per_prompt.parquet").set_index("prompt_id")
    # Two sides of a coin are less certain than a capital that was learnt.
    unsure = "semantic_entropy", "laplacian_eigenvalues", "token_entropy", "token_surprise", "top_5_entropy"
    for measure in (*unsure, "mean_token_entropy", "mean_token_surprise", "mean_nucleus_90_entropy"):
        assert table.loc["open-season", measure] > table.loc["capital-france", measure]


def test_means_over_steps_weigh_the_default_settings_answers_alike(answered, tmp_path):
    generations = pd.read_parquet(answered.generations("base", "questions"))
    default = generations["setting"] == "default"

    def means(*texts):
        """The means where the default setting's answers are ``texts`` in turn."""
        own = pd.Series([texts[index % len(texts)] for index in generations["sample_index"]])
        table = generations.assign(text=own.where(default, "elsewhere"), finish_reason="stop")
        table.to_parquet(tmp_path / "answers.parquet")
        answered.run(
            "score_questions@embedded-base",
            generations=tmp_path / "answers.parquet",
            output=tmp_path / "scores.parquet",
        )
        return pd.DataFrame(pd.read_parquet(tmp_path / "scores.parquet")["step_means"].tolist())

    first, second = means("Paris"), means("a spring day")
    assert len(first) == len(QUESTIONS) and (first["total_entropy"] - second["total_entropy"]).abs().min() > 1e-4
    mixed = means("Paris", "a spring day", "Paris", "Paris")
    # Forward passes in float32, of other rows: the embedded model's differ by 1.2e-6, its first and second by 1e-4.
    np.testing.assert_allclose(mixed, 0.75 * first + 0.25 * second, atol=2e-6)


def test_inverse_entropy_of_base(answered):
    answered.run("build_perturbations@inv_entropy", "generate_perturbations@embedded-base")
    requests = read_perturbations(answered.path("build_perturbations@inv_entropy"))
    assert tuple(requests) == QUESTIONS and {len(own) for own in requests.values()} == {4}
    assert requests["symbol-iron"]["symbol-iron~1"] == f"Please answer: {requests['symbol-iron']['symbol-iron~0']}"
    generations = pd.read_parquet(answered.generations("base", "perturbations"))
    assert generations.groupby("setting").size().to_dict() == dict.fromkeys(("default", "hot"), len(QUESTIONS) * 4 * 3)
    answered.run("eval_inv_entropy@embedded-base")
    table = metrics_of(answered.evals("inv_entropy", "base"))
    assert set(table.index.get_level_values("split")) == {"all", "hot"}
    found = table.loc["all"]
    excess = found.loc["inv_entropy_excess_nats", "value"]
    assert excess == pytest.approx(found.loc["inv_entropy_nats", "value"] - np.log(4))
    assert found.loc["inv_entropy_excess_nats_difference", "value"] == 0
    assert found.loc["inv_entropy_auroc", "n"] == 4 and found.loc["inv_entropy_tsu", "n"] == len(QUESTIONS)
    # Two temperatures: what ignores them rises half of the time.
    assert found.loc["inv_entropy_tsu", "floor"] == 0.5
    hot = table.loc["hot"]
    assert hot.loc["inv_output_dispersion", "value"] > found.loc["inv_output_dispersion", "value"]
    assert hot.loc["inv_input_dispersion", "value"] == found.loc["inv_input_dispersion", "value"] > 0
    # The same answers mean the same right and wrong as on the axis uncertainty.
    rows = pd.read_parquet(answered.evals("inv_entropy", "base") / "per_prompt.parquet")
    assert rows.groupby("prompt_id")["right"].nunique(dropna=False).eq(1).all()
    assert rows.loc[rows["prompt_id"] == "capital-france", "right"].eq(1).all()
    temperatures = rows.groupby("split")["temperature"].unique().map(list).to_dict()
    perturbed = load_params(answered.params).generate.perturbations
    assert temperatures == {"all": [perturbed.temperature], "hot": [perturbed.settings["hot"].temperature]}


def perturbed_with(answered, tmp_path, **settings) -> Dag:
    values = yaml.safe_load(answered.params.read_text())
    values["prompts"]["perturbations"] |= settings
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    return Dag(tmp_path / "params.yaml")


def test_perturbations_by_a_genetic_algorithm(answered, tmp_path):
    output = tmp_path / "genetic.parquet"
    dag = perturbed_with(answered, tmp_path, kind="genetic", max_questions=3)
    dag.run("build_perturbations@inv_entropy", output=output)
    found = read_perturbations(output)
    # Evenly spaced in the prompt set, the same on every run.
    assert list(found) == [QUESTIONS[place] for place in (0, 2, 5)]
    assert all(2 <= len(own) <= 4 and len(set(own.values())) == len(own) for own in found.values())
    dag.run("build_perturbations@inv_entropy", output=tmp_path / "again.parquet")
    assert read_perturbations(tmp_path / "again.parquet") == found


def test_a_question_without_perturbations_is_named(answered, tmp_path):
    dag = perturbed_with(answered, tmp_path, kind="variants")
    first, *others = read_questions(answered.path("build_questions@questions"))
    write_questions(tmp_path / "questions.parquet", [*others, replace(first, variants=())])
    with pytest.raises(ArtifactError, match="kind=variants: the question open-season of .* has no perturbations"):
        dag.run(
            "build_perturbations@inv_entropy", prompts=tmp_path / "questions.parquet", output=tmp_path / "out.parquet"
        )
    genetic = yaml.safe_load(answered.params.read_text())["prompts"]["perturbations"]["genetic"]
    (tmp_path / "words.json").write_text('{"tungsten": {"synonyms": ["wolfram"]}}')
    own = genetic | {"lexicon": str(tmp_path / "words.json")}
    dag = perturbed_with(answered, tmp_path, kind="genetic", genetic=own)
    with pytest.raises(ArtifactError, match="has no perturbations: none of its words is in the lexicon"):
        dag.run("build_perturbations@inv_entropy", output=tmp_path / "out.parquet")


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
