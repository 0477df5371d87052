"""The evaluation stage of the MCQ axis on generations written by hand, and its errors."""

import json
import math

import pandas as pd
import pytest
import yaml

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.prompts import write_text_prompts
from pipeline.artifacts.storage import read_json, read_table, write_table
from pipeline.core.prompts.multiple_choice import mcq_prompts
from pipeline.errors import ArtifactError
from tests.stages.conftest import run_stage


def question(letter: str, label: str = "Correct Answer") -> str:
    return f"Question: What?\nA. one\nB. two\nC. three\nD. four\n{label}: {letter}\nExplanation: Because."


TEXTS = [
    (question("B"), "stop"),
    (question("B"), "stop"),
    (question("A"), "length"),
    (question("C", "**Answer"), "stop"),
    ("Question: What?\nA. one\nB. tw", "length"),
    ("", "stop"),
]


@pytest.fixture
def files(tmp_path):
    (prompt,) = mcq_prompts()
    write_text_prompts(tmp_path / "mcq.parquet", [prompt])

    def write(texts, prompt_id=prompt.prompt_id):
        rows = [(prompt_id, index, 100 + index, text, 9, reason) for index, (text, reason) in enumerate(texts)]
        for condition in ("base", "soft", "hard"):
            (tmp_path / "generations").mkdir(exist_ok=True)
            path = tmp_path / "generations" / f"{condition}.parquet"
            write_table(path, pd.DataFrame(rows, columns=list(GENERATION_COLUMNS)))
        return {
            "prompts": [tmp_path / "mcq.parquet"],
            "generations": tmp_path / "generations",
            "output": tmp_path / "evals" / "mcq" / "embedded",
        }

    return write


def evaluate(params, paths):
    """Evaluate; the directory of base."""
    run_stage(params, "eval-mcq@embedded", **paths)
    return paths["output"] / "base"


def test_evaluation_directory(tiny_params, files):
    paths = files(TEXTS)
    output = evaluate(tiny_params, paths)
    evaluation = read_json(output / "metrics.json")
    found = {row["metric"]: row for row in evaluation["metrics"]}
    assert all(
        (row["axis"], row["model"], row["condition"], row["split"], row["family"])
        == ("mcq", "embedded", "base", "mcq", "")
        for row in evaluation["metrics"]
    )
    assert found["mcq_parse_rate"]["value"] == 0.5 and found["mcq_parse_rate_tolerant"]["value"] == pytest.approx(4 / 6)
    # Strict A, B, B: 2/3 - 1/4 + 1/3 - 1/4. Tolerant A, B, B, C: 1/2 - 1/4.
    assert found["mcq_total_variation"]["value"] == pytest.approx(0.5)
    assert found["mcq_total_variation_tolerant"]["value"] == pytest.approx(0.25)
    assert evaluation["failures"] == {
        "mcq": {"empty": 1, "missing_option": 1, "missing_answer": 1},
        "mcq (tolerant)": {"empty": 1, "missing_option": 1},
    }
    (row,) = read_table(output / "per_prompt.parquet", ("prompt_id", "split")).to_dict("records")
    assert (row["split"], row["num_truncated"], row["num_failed_truncated"]) == ("mcq", 2, 1)
    table = read_table(output / "generations.parquet", ("prompt_id", "sample_index", "strict", "tolerant"))
    assert table["sample_index"].tolist() == list(range(6))
    assert table["strict"].tolist() == ["B", "B", "A", "missing_answer", "missing_option", "empty"]
    assert table["tolerant"].tolist() == ["B", "B", "A", "C", "missing_option", "empty"]
    assert table["truncated"].tolist() == [False, False, True, False, True, False]
    provenance = json.loads((output / "provenance.json").read_text())
    assert provenance["stage"] == "eval-mcq" and str(paths["generations"]) in provenance["inputs_sha256"]


def test_the_released_codes_parser(tiny_params, files, tmp_path):
    values = yaml.safe_load(tiny_params.read_text())
    values["evaluate"]["mcq_parser"] = "released_code"
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    without = (question("D").split("\nExplanation")[0], "stop")
    output = evaluate(tmp_path / "params.yaml", files([*TEXTS, without]))
    table = read_table(output / "generations.parquet", ("strict", "tolerant"))
    assert table["strict"].tolist()[:3] == ["B", "B", "A"] and table["strict"].iloc[-1] == "missing_explanation"
    assert table["tolerant"].iloc[-1] == "D"


def test_undefined_is_null_and_counted(tiny_params, files):
    output = evaluate(tiny_params, files([("no", "stop"), ("", "stop")]))
    found = {row["metric"]: row for row in read_json(output / "metrics.json")["metrics"]}
    assert found["mcq_parse_rate"]["value"] == 0.0
    for name in ("mcq_total_variation", "mcq_total_variation_tolerant", "mcq_share_a"):
        assert found[name]["value"] is None and found[name]["undefined"] == 1
    per_prompt = read_table(output / "per_prompt.parquet", ("total_variation",))
    assert math.isnan(per_prompt["total_variation"][0])


def test_generations_of_another_prompt_are_refused(tiny_params, files):
    paths = files(TEXTS, prompt_id="mcq-0000000000")
    with pytest.raises(ArtifactError, match=r"base\.parquet has no rows for the prompt mcq-"):
        evaluate(tiny_params, paths)
    assert not paths["output"].exists()


def test_same_input_same_output(tiny_params, files):
    paths = files(TEXTS)
    first = (evaluate(tiny_params, paths) / "metrics.json").read_text()
    assert (evaluate(tiny_params, paths) / "metrics.json").read_text() == first
