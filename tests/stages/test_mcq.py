"""The evaluation stage of the MCQ axis on generations written by hand, and its errors."""

import json

import pytest

from pipeline.artifacts.prompts import write_text_prompts
from pipeline.artifacts.storage import read_json, read_table
from pipeline.core.prompts.multiple_choice import mcq_prompts
from tests.composition import write_changed
from tests.stages.conftest import run_stage, write_generations


def question(letter: str, label: str = "Correct Answer") -> str:
    return f"Question: What?\nA. one\nB. two\nC. three\nD. four\n{label}: {letter}\nExplanation: Because."


CUT_OFF = "Question: What?\nA. one\nB. tw"
TEXTS = [question("B"), question("B"), question("A"), question("C", "**Answer"), CUT_OFF, ""]


@pytest.fixture
def evaluate(tiny_params, tmp_path):
    """Evaluate the same replies of every condition; the directory of base."""
    (prompt,) = mcq_prompts()
    write_text_prompts(tmp_path / "mcq.parquet", [prompt])

    def run(texts, prompt_id=prompt.prompt_id, parser="strict"):
        params = write_changed(tiny_params, tmp_path / "params.yaml", evaluate__mcq_parser=parser)
        for condition in ("base", "soft", "hard"):
            write_generations(tmp_path / "generations" / f"{condition}.parquet", {prompt_id: texts})
        paths = {"prompts": [tmp_path / "mcq.parquet"], "generations": tmp_path / "generations"}
        run_stage(params, "eval-mcq@embedded", **paths, output=tmp_path / "evals")
        return tmp_path / "evals" / "base"

    return run


def test_evaluation_directory(evaluate):
    output = evaluate(TEXTS)
    evaluation = read_json(output / "metrics.json")
    found = {row["metric"]: row for row in evaluation["metrics"]}
    labels = {tuple(row[name] for name in ("axis", "model", "condition", "split", "family")) for row in found.values()}
    assert labels == {("mcq", "embedded", "base", "mcq", "")}
    # A, B, B: 2/3 - 1/4 + 1/3 - 1/4.
    assert found["mcq_parse_rate"]["value"] == 0.5
    assert found["mcq_total_variation"]["value"] == pytest.approx(0.5)
    assert evaluation["failures"] == {"mcq": {"empty": 1, "missing_option": 1, "missing_answer": 1}}
    (row,) = read_table(output / "per_prompt.parquet", ("prompt_id", "split")).to_dict("records")
    assert (row["split"], row["num_samples"], row["count_b"]) == ("mcq", 6, 2)
    table = read_table(output / "generations.parquet", ("prompt_id", "sample_index", "outcome"))
    assert table["sample_index"].tolist() == list(range(6))
    assert table["outcome"].tolist() == ["B", "B", "A", "missing_answer", "missing_option", "empty"]
    provenance = json.loads((output / "provenance.json").read_text())
    assert provenance["stage"] == "eval-mcq"


def test_the_released_codes_parser(evaluate):
    output = evaluate([*TEXTS, question("D").split("\nExplanation")[0]], parser="released_code")
    found = read_table(output / "generations.parquet", ("outcome",))["outcome"].tolist()
    assert found[:3] == ["B", "B", "A"] and found[-1] == "missing_explanation"


def test_undefined_is_null_and_counted(evaluate):
    found = {row["metric"]: row for row in read_json(evaluate(["no", ""]) / "metrics.json")["metrics"]}
    distance = found["mcq_total_variation"]
    assert found["mcq_parse_rate"]["value"] == 0.0 and distance["value"] is None and distance["undefined"] == 1
