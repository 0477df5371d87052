"""The axes of questions through their stages on the embedded model: samples, classes, evaluations."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml

from pipeline.axes.inv_entropy.perturb import read_perturbations
from pipeline.axes.questions.question import normalise, read_questions
from pipeline.axes.registry import METRICS
from pipeline.dag.stage_kinds import evaluation_name
from pipeline.errors import ArtifactError
from tests.composition import write_changed
from tests.conftest import ROOT
from tests.stages.conftest import Dag, run_stage

pytestmark = pytest.mark.slow
QUESTIONS = ("open-season", "open-coin-side", "capital-france", "capital-italy", "symbol-iron", "is-dolphin-fish")
"""In the order of the file."""
CHOICE = "choice-fruit"
AXES = ("semcal", "credal", "uncertainty", "inv_entropy")


def answering(directory, values) -> Dag:
    """The DAG of ``values``, with the base checkpoint's answers and their classes."""
    (directory / "params.yaml").write_text(yaml.safe_dump(values))
    dag = Dag(directory / "params.yaml")
    dag.run("build-prompts", "check-model@embedded")
    dag.pass_preflight()
    dag.run("generate-questions@embedded-base", "partition-questions@embedded-base")
    return dag


@pytest.fixture(scope="module")
def answered(tiny_params, tmp_path_factory) -> Dag:
    """A DAG of its own with a few questions and the embedded model's answers to them."""
    directory = tmp_path_factory.mktemp("answered")
    values = yaml.safe_load(tiny_params.read_text())
    lines = (ROOT / "data" / "questions.jsonl").read_text().splitlines()
    chosen = [line for line in lines if json.loads(line)["prompt_id"] in QUESTIONS]
    (directory / "questions.jsonl").write_text("\n".join(chosen))
    values |= {"artifacts": str(directory / "artifacts"), "axes": ["human", *AXES], "conditions": ["base"]}
    values["prompts"]["questions"] |= {"source": str(directory / "questions.jsonl"), "max_prompts": None}
    values["prompts"]["perturbations"] |= {"number": 3, "max_questions": None}
    values["generate"]["perturbations"] |= {"num_samples": 3, "max_new_tokens": 8}
    values["models"]["embedded"]["checkpoint"] = str(ROOT / "models" / "embedded")
    settings = {"cold": {"temperature": 0.05, "top_p": 1.0, "top_k": None}}
    sizes = {"num_samples": 20, "max_new_tokens": 8, "batch_size": 64}
    style = {"template": "{prompt} Say it in one sentence.", "read": "mentioned", "mark": None, "max_new_tokens": 12}
    values["generate"]["questions"] |= {**sizes, "settings": settings, "styles": {"sentence": style}}
    return answering(directory, values)


@pytest.fixture(scope="module")
def partition(answered):
    return pd.read_parquet(answered.path("partition-questions@embedded-base"))


def metrics_of(directory):
    table = pd.DataFrame(json.loads((directory / "metrics.json").read_text())["metrics"])
    return table.set_index(["split", "metric"])


def test_every_setting_has_its_samples_and_its_temperature(answered, partition):
    generations = pd.read_parquet(answered.generations("base", "questions"))
    assert generations.groupby(["prompt_id", "setting"]).size().to_dict() == {
        (name, setting): 20 for name in QUESTIONS for setting in ("cold", "default", "sentence")
    }
    assert not generations.duplicated(["prompt_id", "setting", "sample_index"]).any()
    assert generations["seed"].nunique() == len(generations)
    # Almost greedy: hardly more than one answer.
    texts = generations.groupby(["setting", "prompt_id"])["text"].nunique().groupby("setting").mean()
    assert texts["cold"] < 1.5 < texts["default"]
    assert len(partition) == len(generations)


def test_samples_do_not_depend_on_what_is_asked_beside_them(answered, tmp_path):
    """Other settings and styles change no sample: a request's draws are its own."""
    values = yaml.safe_load(answered.params.read_text())
    settings = {"warm": {"temperature": 1.3, "top_p": 0.9, "top_k": 20}, **values["generate"]["questions"]["settings"]}
    changes = {"generate__questions__styles": {}, "generate__questions__settings": settings}
    params = write_changed(answered.params, tmp_path / "params.yaml", **changes)
    run_stage(params, "generate-questions@embedded-base", output=tmp_path / "other.parquet")
    index = ["prompt_id", "setting", "sample_index"]
    own, other = (
        pd.read_parquet(path).set_index(index)[["seed", "text", "num_tokens"]]
        for path in (answered.generations("base", "questions"), tmp_path / "other.parquet")
    )
    assert set(other.index.get_level_values("setting")) == {"default", "cold", "warm"}
    kept = own[own.index.get_level_values("setting").isin(["default", "cold"])]
    pd.testing.assert_frame_equal(other.loc[kept.index], kept)


def test_a_style_may_answer_at_its_length_and_has_the_known_answer_that_the_reply_mentions(answered, partition):
    generations = pd.read_parquet(answered.generations("base", "questions"))
    longest = generations.groupby("setting")["num_tokens"].max()
    assert longest["default"] <= 8 < longest["sentence"] <= 12
    coin = (partition["setting"] == "sentence") & (partition["prompt_id"] == "open-coin-side")
    texts = generations.loc[coin.to_numpy(), "text"].str.lower()
    for side, other in (("heads", "tails"), ("tails", "heads")):
        alone = (texts.str.contains(rf"\b{side}\b") & ~texts.str.contains(rf"\b{other}\b")).to_numpy()
        assert (partition[coin]["label"].to_numpy()[alone] == side).all()


def test_evaluations_of_base(answered):
    """Every axis writes its own metrics, over all questions that it can be computed for, and no change from itself."""
    answered.run("score-questions@embedded-base")
    answered.run("build-prompts-perturbations@inv_entropy", "generate-perturbations@embedded-base")
    splits = {"human": {"all", "sentence"}, "semcal": {"all", "sentence"}}
    for axis in ("human", *AXES):
        answered.run(f"{evaluation_name(axis)}@embedded")
        table = metrics_of(answered.evals(axis, "base"))
        names = set(table.index.get_level_values("metric"))
        assert names == {name for name, metric in METRICS.items() if metric.axis == axis}
        assert set(table.index.get_level_values("split")) == splits.get(axis, {"all"})
        assert table["change"].isna().all() and (table["value"].notna() | (table["note"] != "")).all()
    human, semcal, credal, uncertainty, inverse = (
        metrics_of(answered.evals(axis, "base")) for axis in ("human", *AXES)
    )
    tv = human.loc[("all", "human_tv")]
    assert 0 < tv["floor"] < tv["value"] <= 1 and tv["n"] == len(QUESTIONS)
    assert semcal.loc[("all", "semcal_accuracy"), "n"] == 4
    assert semcal.loc[("all", "semcal_people_accuracy"), "n"] == len(QUESTIONS)
    assert 0 <= credal.loc[("all", "credal_distance"), "value"] <= 1
    assert uncertainty.loc[("all", "uncertainty_semantic_entropy_spearman"), "floor"] > 0.5
    few = uncertainty.loc[("all", "uncertainty_semantic_entropy_auroc"), "note"]
    assert few.endswith("an AUROC needs 10 of each")
    assert 0 < inverse.loc[("all", "inv_input_dispersion"), "value"] < 1
    table = pd.read_parquet(answered.evals("uncertainty", "base") / "per_prompt.parquet").set_index("prompt_id")
    # Two sides of a coin are less certain than a capital that was learnt.
    for measure in ("semantic_entropy", "laplacian_eigenvalues", "first_token_entropy", "mean_token_entropy"):
        assert table.loc["open-season", measure] > table.loc["capital-france", measure]


def test_a_condition_that_answers_as_people_do_is_better_than_base(answered, partition, tmp_path):
    rng = np.random.default_rng(0)
    people = partition.copy()
    for question in read_questions(answered.path("build-prompts-questions")):
        spellings = [(normalise(text), item.label) for item in question.human for text in item.answers]
        counts = np.array([number for item in question.human for number in item.answers.values()])
        own = people["prompt_id"] == question.prompt_id
        drawn = [spellings[place] for place in rng.choice(len(counts), size=own.sum(), p=counts / counts.sum())]
        people.loc[own, ["spelling", "label"]] = drawn
        people.loc[own, "answer"] = people.loc[own, "spelling"]
    params = write_changed(answered.params, tmp_path / "params.yaml", conditions=["base", "soft"])
    partitions = tmp_path / "partitions"
    partitions.mkdir()
    for condition, table in (("base", partition), ("soft", people)):
        table.to_parquet(partitions / f"{condition}.parquet")
    found = {}
    for axis in ("human", "semcal"):
        run_stage(params, f"{evaluation_name(axis)}@embedded", partitions=partitions, output=tmp_path / axis)
        found[axis] = metrics_of(tmp_path / axis / "soft").loc["all"]
        # What base scores does not depend on who is evaluated beside it.
        answered.run(f"{evaluation_name(axis)}@embedded", output=tmp_path / f"{axis} alone")
        pd.testing.assert_frame_equal(
            metrics_of(tmp_path / axis / "base"), metrics_of(tmp_path / f"{axis} alone" / "base")
        )
    tv = found["human"].loc["human_tv"]
    assert tv["change_high"] < 0 and tv["value"] == pytest.approx(tv["floor"], abs=0.1)
    assert found["semcal"].loc["semcal_people_smooth_ece", "change"] < 0


def test_the_entropy_over_steps_weighs_the_default_settings_answers_alike(answered, tmp_path):
    generations = pd.read_parquet(answered.generations("base", "questions"))
    default = generations["setting"] == "default"

    def means(*texts):
        """The entropies where the default setting's answers are ``texts`` in turn."""
        own = pd.Series([texts[index % len(texts)] for index in generations["sample_index"]])
        table = generations.assign(text=own.where(default, "elsewhere"), finish_reason="stop")
        table.to_parquet(tmp_path / "answers.parquet")
        answered.run(
            "score-questions@embedded-base",
            generations=tmp_path / "answers.parquet",
            output=tmp_path / "scores.parquet",
        )
        return pd.read_parquet(tmp_path / "scores.parquet")["mean_token_entropy"].to_numpy()

    first, second = means("Paris"), means("a spring day")
    assert len(first) == len(QUESTIONS) and np.abs(first - second).min() > 1e-4
    mixed = means("Paris", "a spring day", "Paris", "Paris")
    # Forward passes in float32, of other rows: the embedded model's differ by 1.2e-6, its first and second by 1e-4.
    np.testing.assert_allclose(mixed, 0.75 * first + 0.25 * second, atol=2e-6)


def test_perturbations_are_of_questions_evenly_spaced_in_the_set(answered, tmp_path):
    params = write_changed(answered.params, tmp_path / "params.yaml", prompts__perturbations__max_questions=3)
    run_stage(params, "build-prompts-perturbations@inv_entropy", output=tmp_path / "some.parquet")
    found = read_perturbations(tmp_path / "some.parquet")
    assert list(found) == [QUESTIONS[place] for place in (0, 2, 5)]
    first = found[QUESTIONS[0]]
    assert len(first) == 4 and first[f"{QUESTIONS[0]}~1"] == f"Please answer: {first[f'{QUESTIONS[0]}~0']}"


def test_letters_of_options_have_a_law_and_a_class(answered, tmp_path):
    lines = (ROOT / "data" / "questions.jsonl").read_text().splitlines()
    chosen = [line for line in lines if json.loads(line)["prompt_id"] in (CHOICE, "capital-italy")]
    (tmp_path / "questions.jsonl").write_text("\n".join(chosen))
    values = yaml.safe_load(answered.params.read_text())
    values["artifacts"] = str(tmp_path / "artifacts")
    values["prompts"]["questions"]["source"] = str(tmp_path / "questions.jsonl")
    dag = answering(tmp_path, values)
    dag.run("score-questions@embedded-base", "eval-uncertainty@embedded")
    table = pd.read_parquet(dag.evals("uncertainty", "base") / "per_prompt.parquet").set_index("prompt_id")
    # The embedded model answers with letters where it is shown some.
    choice = table.loc[CHOICE]
    assert 0 <= choice["choice_entropy"] <= 1 and np.isnan(table.loc["capital-italy", "choice_entropy"])
    partition = pd.read_parquet(dag.path("partition-questions@embedded-base"))
    (question,) = [each for each in read_questions(dag.path("build-prompts-questions")) if each.options]
    own = partition[(partition["prompt_id"] == CHOICE) & (partition["setting"] == "default")]
    assert own["label"].isin(question.options).mean() > 0.5
    # The law over letters is that of what is answered.
    scores = pd.read_parquet(dag.path("score-questions@embedded-base")).set_index("prompt_id")
    law = dict(zip(question.options, scores.loc[CHOICE, "choice_probabilities"], strict=True))
    assert 0.5 < sum(law.values()) <= 1
    shares = own["label"].value_counts(normalize=True)
    assert max(abs(law[option] - shares.get(option, 0.0)) for option in law) < 0.4


def test_a_question_without_answers_is_named(answered, partition, tmp_path):
    partition[partition["prompt_id"] != "symbol-iron"].to_parquet(tmp_path / "base.parquet")
    with pytest.raises(ArtifactError, match="base.parquet has no answers to the question symbol-iron"):
        answered.run("eval-semcal@embedded", partitions=tmp_path, output=tmp_path / "out")
