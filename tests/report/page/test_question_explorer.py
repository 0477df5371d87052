"""The explorer of questions: its data from fabricated evaluations, and its script with a page that is not drawn."""

import json
import math
import shutil
import subprocess

import pandas as pd
import pytest

from pipeline.report.evaluations import read_evaluations
from pipeline.report.page import question_explorer
from pipeline.report.page.page import TEMPLATES
from pipeline.report.page.question_explorer import question_payload
from tests.report.conftest import CONDITIONS, metric_row, write_fabricated

MODELS = {"alpha": "Alpha", "beta": "Beta"}
# Elements and Plotly as the script uses them; what is drawn is printed.
STUB = """
const made = {};
const boxes = ["base", "soft"].map((value) => ({ value, checked: true }));
const select = () => ({ replaceChildren(...all) { this.value = all[0].value; }, addEventListener() {} });
global.Option = class { constructor(text, value) { this.value = value; } };
global.document = {
  getElementById: (id) => (made[id] ??= { id, nextElementSibling: {}, ...select() }),
  querySelectorAll: () => boxes,
};
const drawn = {};
global.Plotly = { purge(element) { drawn[element.id] = null; } };
global.charts = {
  readJson: (id) => INPUT[id],
  draw: (element, figure) => { drawn[element.id] = figure; },
};
"""


def evaluated(root, condition, third="c"):
    """One evaluation of each axis: p with three classes, of which ``third`` is a model's own, and q with four."""
    members = [
        ("p", "settings", "default", "a", 3),
        ("p", "settings", "default", "b", 1),
        ("p", "settings", "warm", third, 4),
        ("p", "variants", "variant1", "a", 4),
        ("p", "people", "people", "a", 30),
        ("p", "people", "people", "b", 10),
        ("p", "people", "people", "(other)", 0),
        *(("q", "people", "people", label, 10) for label in "abcd"),
        ("q", "settings", "default", "a", 4),
    ]
    classes = [("p", "b", 10, 1), ("p", "a", 30, 3), ("p", "(other)", 0, 0), ("q", "a", 5, 4), ("q", "d", 15, 0)]
    points = {"low_edge": 0.0, "high_edge": 0.1, "confidence": [0.7, math.nan], "frequency": [0.5, math.nan]}
    points |= {"split": "all", "target": "gold", "size": [2, 0], "band_low": 0.1, "band_high": [0.9, math.nan]}
    asked = {"prompt_id": ["p", "q"], "people_entropy_nats": [0.5, math.nan], "semantic_entropy": 0.6, "classes": 4}
    texts = pd.DataFrame({"prompt_id": ["p", "q"], "prompt": ["Which <letter>?", "Which?"]})
    tables = {
        "human": {
            "classes": pd.DataFrame(classes, columns=["prompt_id", "label", "people", "answers"]),
            "per_prompt": texts,
        },
        "credal": {"members": pd.DataFrame(members, columns=["prompt_id", "kind", "member", "label", "count"])},
        "semcal": {"reliability": pd.DataFrame(points)},
        "uncertainty": {"per_prompt": pd.DataFrame(asked)},
    }
    for axis, own in tables.items():
        write_fabricated(root, [metric_row(axis, "alpha", condition, "all", "human_tv", 0.1)], **own)


def test_bars_triangles_and_points(tmp_path):
    evaluated(tmp_path, "base")
    evaluated(tmp_path, "soft")
    payload = question_payload(read_evaluations(tmp_path), MODELS, CONDITIONS)
    json.dumps(payload, allow_nan=False)
    assert payload["models"] == {"alpha": "Alpha"} and payload["conditions"] == ["base", "soft"]
    assert payload["questions"] == {"p": "Which <letter>?", "q": "Which?"} and payload["omitted"] == 0
    base = payload["results"]["alpha"]["base"]
    # People's most frequent class first.
    assert list(base["bars"]["p"]["people"].items()) == [("a", 0.75), ("b", 0.25), ("(other)", 0.0)]
    assert base["bars"]["p"]["answers"] == {"a": 0.75, "b": 0.25, "(other)": 0.0}
    assert base["bars"]["q"] == {"people": {"d": 0.75, "a": 0.25}, "answers": {"d": 0.0, "a": 1.0}}
    assert base["simplex"] == {
        "p": {
            "labels": ["a", "b", "c"],
            "people": [0.75, 0.25, 0.0],
            "settings": [{"name": "default", "law": [0.75, 0.25, 0.0]}, {"name": "warm", "law": [0.0, 0.0, 1.0]}],
            "variants": [{"name": "variant1", "law": [1.0, 0.0, 0.0]}],
        }
    }
    assert base["reliability"]["gold"]["confidence"] == [0.7] and base["reliability"]["gold"]["size"] == [2]
    # Over ln 4; people were not asked q.
    assert base["entropies"] == {"p": [0.3607, 0.4328]}


def test_a_triangle_has_the_classes_of_all_conditions(tmp_path):
    evaluated(tmp_path, "base")
    evaluated(tmp_path, "soft", third="e")
    payload = question_payload(read_evaluations(tmp_path), MODELS, CONDITIONS)
    assert [own["simplex"] for own in payload["results"]["alpha"].values()] == [{}, {}]


def test_questions_are_thinned_for_size_and_none_are_no_explorer(tmp_path, monkeypatch):
    evaluated(tmp_path, "base")
    monkeypatch.setattr(question_explorer, "MAX_QUESTIONS", 1)
    payload = question_payload(read_evaluations(tmp_path), MODELS, CONDITIONS)
    assert list(payload["questions"]) == ["p"] and payload["omitted"] == 1
    assert set(payload["results"]["alpha"]["base"]["bars"]) == {"p"}
    nothing = question_payload(read_evaluations(tmp_path / "none"), MODELS, CONDITIONS)
    assert nothing["questions"] == nothing["results"] == {} and nothing["conditions"] == []


def test_the_list_of_questions_leaves_out_what_all_begin_with():
    examples = "Answer like this. Q: Name a fruit. A: apple. Q: Name"
    labels = question_explorer._labels
    texts = {"p": f"{examples} a pet.", "q": f"{examples} apparel.", "r": examples}
    assert labels(texts) == {"p": "a pet.", "q": "apparel.", "r": examples}
    assert labels({"p": "Which pet?", "q": "Which part?"}) == {"p": "Which pet?", "q": "Which part?"}
    assert labels({"p": examples}) == {"p": examples}


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_script_draws_every_view(tmp_path):
    evaluated(tmp_path / "evals", "base")
    evaluated(tmp_path / "evals", "soft")
    payload = question_payload(read_evaluations(tmp_path / "evals"), MODELS, CONDITIONS)
    look = {"colors": dict.fromkeys(CONDITIONS, "#000000"), "symbols": dict.fromkeys(CONDITIONS, "circle")}
    inputs = json.dumps({"questions-data": payload, "look": look})
    script = (TEMPLATES / "questions.js").read_text(encoding="utf-8")
    program = f"const INPUT = {inputs};{STUB}{script};console.log(JSON.stringify(drawn));"
    done = subprocess.run(["node", "-"], input=program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    drawn = {name.removeprefix("plot-question-"): figure for name, figure in json.loads(done.stdout).items()}
    bars, simplex = (
        {trace["name"]: trace for trace in drawn[view]["data"] if "name" in trace} for view in ("bars", "simplex")
    )
    assert bars["people"]["y"] == ["a", "b", "(other)"] and bars["people"]["x"] == [0.75, 0.25, 0]
    # A quarter of the way from the first corner to the second.
    assert simplex["people"]["x"] == [0.25] and simplex["people"]["y"] == [0]
    assert simplex["soft"]["x"] == [0.25, 0.5] and simplex["soft"]["y"] == pytest.approx([0, math.sqrt(3) / 2])
    assert simplex["base, paraphrases"]["x"] == [0]
    assert {trace["x"][0] for trace in drawn["reliability"]["data"][1:]} == {0.7}
    assert {trace["y"][0] for trace in drawn["entropies"]["data"][1:]} == {0.4328}
