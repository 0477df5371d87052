"""The items of the tasks: prompts written out, metrics by hand, and lm-evaluation-harness as it was recorded."""

import hashlib
import json

import numpy as np
import pytest

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.core.retention.items import RetentionTask
from pipeline.core.retention.tasks import TASKS
from tests.conftest import ROOT


def values(outcomes):
    found = {}
    for outcome in outcomes:
        found.setdefault(outcome.metric, []).append(outcome.value)
    return found


def test_truthful_qa():
    rows = [
        {
            "question": "What is it?",
            "mc1_targets": {"choices": ["best", "bad", "worse"], "labels": [1, 0, 0]},
            "mc2_targets": {"choices": ["best", "good", "bad"], "labels": [1, 1, 0]},
        }
    ]
    task = RetentionTask("tinyTruthfulQA", {"validation": rows})
    assert [arguments[1] for _, arguments in task.requests] == [" best", " good", " bad", " best", " bad", " worse"]
    weights = (0.2, 0.1, 0.3, np.exp(-1.0), np.exp(-2.0), np.exp(-3.0))
    responses = [float(np.log(weight)) for weight in weights]
    found = values(task.outcomes(responses))
    assert found["mc2"] == pytest.approx([0.3 / 0.6]) and found["acc"] == [1.0]
    # The same answers with likelihoods that float64 has no number for.
    tiny = [value - 2000.0 for value in responses]
    assert values(task.outcomes(tiny))["mc2"] == pytest.approx([0.5])


def gsm8k(answer="20 + 1,214 = 1,234\n#### 1,234", **scoring):
    rows = [{"question": f"How many in {index}?", "answer": answer} for index in range(8)]
    return RetentionTask("tinyGSM8k", {"train": rows[1:], "test": rows[:1]}, **scoring)


@pytest.mark.parametrize(
    ("text", "strict", "released", "flexible"),
    [
        (" 20 + 1214\n#### 1234", 1, 1, 1),
        (" it is\n#### 1,234.", 1, 1, 1),
        (" The answer is $1,234.", 0, 0, 1),
        ("#### 7\n#### 1234", 0, 0, 1),
        ("#### 1234\n#### 1234", 1, 0, 1),
        ("#### 1234.0", 0, 1, 0),
        ("#### 1234\nand then 9", 1, 1, 0),
        (" none", 0, 0, 0),
    ],
)
def test_gsm8k_extraction(text, strict, released, flexible):
    answer = [{"text": text, "num_tokens": 7, "finish_reason": "length"}]
    outcomes = gsm8k().outcomes(answer)
    assert values(outcomes) == {"exact_match_strict": [strict], "exact_match_flexible": [flexible]}
    assert outcomes[0].details["answer"] == text
    theirs = values(gsm8k(scoring="released_code").outcomes(answer))
    assert theirs == {"exact_match_strict": [released], "exact_match_flexible": [flexible]}


def test_winogrande_as_the_released_code_scores_it():
    rows = [{"sentence": "_ is it.", "option1": "A long option", "option2": "One", "answer": "2"}] * 7
    data = {"train": [{**row, "option1": f"{place}"} for place, row in enumerate(rows)], "validation": rows[:1]}
    ours, theirs = (
        RetentionTask("tinyWinogrande", data, lambda turns: turns[0]["content"], scoring)
        for scoring in ("harness", "released_code")
    )
    assert [ours.requests[0][1][1], theirs.requests[0][1][1]] == ["is it.", " is it."]
    # Per character the long one is likelier, in all the short one.
    assert values(ours.outcomes([-5.0, -4.0])) == {"acc_norm": [0.0], "acc": [1.0]}
    assert values(theirs.outcomes([-5.0, -4.0])) == {"acc_norm": [1.0], "acc": [1.0]}


def render(messages):
    return "".join(f"<{message['role']}>{message['content']}" for message in messages) + "<answer>"


FORMS = (None, render)
RECORDED = {
    "tinyMMLU": (["7ed804f776a636a5", "f6f293af6fc333a5"], {"acc_norm": 0.26, "acc": 0.26}),
    "tinyHellaswag": (["f423519d6395a6a0", "d8de639d94581f05"], {"acc_norm": 0.3, "acc": 0.3}),
    "tinyTruthfulQA": (["3ca88d236da03173", "7af69337e9df9097"], {"mc2": 0.42604309209, "acc": 0.2}),
    "tinyWinogrande": (["b2ceeb9fac2f17fb", "1b6e412be09b00c7"], {"acc_norm": 0.5, "acc": 0.52}),
    "tinyGSM8k": (["2e0c5d869bccecf6", "d16ec36567f77149"], {"exact_match_strict": 0.34, "exact_match_flexible": 0.67}),
}
"""What lm-evaluation-harness 0.4.13 made of the shipped items: the beginning of the SHA-256 of all its requests in each
of FORMS, and the means of its metrics for the responses below."""
ANSWERS = (
    "{answer}",
    "The answer is {number}.",
    "#### {number}",
    " none",
    "so ${number}\nand 3",
    "#### 7\n#### {number}",
)


def made_up_responses(requests, rows):
    """Random log-likelihoods, or answers to problems that are right in some forms alone."""
    if requests[0][0] == "loglikelihood":
        return [float(value) for value in np.random.default_rng(0).normal(-20, 8, len(requests))]
    texts = [
        ANSWERS[place % len(ANSWERS)].format(answer=row["answer"], number=row["answer"].split("#### ")[-1])
        for place, row in enumerate(rows)
    ]
    return [{"text": text, "num_tokens": 7, "finish_reason": "stop"} for text in texts]


@pytest.mark.parametrize("task", RECORDED)
def test_requests_and_metrics_are_the_harness_own(task):
    files = sorted((ROOT / "data" / "retention" / task).glob("*.jsonl"))
    data = {path.stem: read_json_lines(path, ()) for path in files}
    digests, expected = RECORDED[task]
    for template, digest in zip(FORMS, digests, strict=True):
        own = RetentionTask(task, data, template)
        assert hashlib.sha256(json.dumps(own.requests).encode()).hexdigest().startswith(digest)
        scores = values(own.outcomes(made_up_responses(own.requests, data[TASKS[task].split])))
        assert {metric: np.mean(each) for metric, each in scores.items()} == pytest.approx(expected, abs=1e-9)
