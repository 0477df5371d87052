"""How replies become answers: by hand, strictly, and total on any text."""

import pytest

from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.protocols import (
    AnswerProtocol,
    channel_answer,
    listed_answers,
    tagged_answer,
    verbalized_answer,
)

HARMONY = "<|channel|>analysis<|message|>seed: xK3 ... so 4.2<|end|><|start|>assistant<|channel|>final<|message|>{}"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<seed>x9</seed> <answer> 3.5\n</answer>", "3.5"),
        ("<think>maybe <answer>1</answer></think><answer>2</answer> done", "2"),
        ("<answer></answer>", ""),
        ("3.5", Invalid.NO_ANSWER),
        ("", Invalid.EMPTY),
        ("<think>so", Invalid.UNCLOSED_REASONING),
        ("<answer>3.5", Invalid.UNCLOSED_ANSWER),
        ("</answer><answer>3", Invalid.UNCLOSED_ANSWER),
        ("<answer>1</answer><answer>2</answer>", Invalid.SEVERAL_ANSWERS),
        ("<answer><answer>1</answer></answer>", Invalid.SEVERAL_ANSWERS),
        ("<answer>1</answer></answer>", Invalid.SEVERAL_ANSWERS),
        ("<ANSWER>1</ANSWER>", Invalid.NO_ANSWER),
    ],
)
def test_tagged_answers(text, answer):
    assert tagged_answer(text) == answer
    assert isinstance(tagged_answer(text), Invalid) == isinstance(answer, Invalid)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (HARMONY.format("4.2"), "4.2"),
        (HARMONY.format("4.2<|return|>"), "4.2"),
        ("<|channel|>final <|constrain|>json<|message|>7<|end|>", "7"),
        ("<|channel|>analysis<|message|>4.2", Invalid.NO_ANSWER),
        ("4.2", Invalid.NO_ANSWER),
        ("<|channel|>final", Invalid.NO_ANSWER),
        ("<|channel|>finally<|message|>4.2", Invalid.NO_ANSWER),
        (" ", Invalid.EMPTY),
        (HARMONY.format("1<|end|><|start|>assistant<|channel|>final<|message|>2"), Invalid.SEVERAL_ANSWERS),
    ],
)
def test_channel_answers(text, answer):
    assert channel_answer(text, "final") == answer


def test_listed_answers():
    assert listed_answers("1.5\n\n 2 \n3\n", 3) == ["1.5", "2", "3"]
    assert listed_answers("1\n2\n3\n4", 2) == ["1", "2"]
    assert listed_answers("1\n2", 4) == ["1", "2", Invalid.MISSING_ANSWER, Invalid.MISSING_ANSWER]
    # The last line of a reply that was cut off may be half a number.
    assert listed_answers("1\n2.", 2, truncated=True) == ["1", Invalid.MISSING_ANSWER]
    assert listed_answers("1\n2\n", 2, truncated=True) == ["1", "2"]
    assert listed_answers("<think>", 2) == [Invalid.UNCLOSED_REASONING] * 2
    assert listed_answers("", 2) == [Invalid.EMPTY] * 2


def test_verbalised_answers_are_drawn_by_their_probabilities():
    text = "a | 0.2\nb | 60%\nc|d | 0\n e | 0.2"
    draws = [verbalized_answer(text, seed) for seed in range(3000)]
    found = {answer: draws.count(answer) / 3000 for answer in set(draws)}
    # Binomial standard deviation at 3,000 draws is at most .009; four of them.
    assert found == pytest.approx({"a": 0.2, "b": 0.6, "e": 0.2}, abs=0.036)
    assert verbalized_answer(text, 5) == verbalized_answer(text, 5)
    assert verbalized_answer("x|y | 2", 1) == "x|y"
    assert verbalized_answer("1 | 0.5\n2 | 0.", 3, truncated=True) == "1"


@pytest.mark.parametrize("text", ["3.5", "3.5 | high", "3.5 | -1", "3.5 | 0", "3 | 1e999", "a | 0.5\nb"])
def test_malformed_candidates(text):
    assert verbalized_answer(text, 0) is Invalid.MALFORMED_CANDIDATES


def test_the_task_itself_is_the_same_under_every_protocol():
    for condition in ("base", "soft", "hard", "constrained"):
        assert AnswerProtocol(condition).messages("structured", "P") == [{"role": "user", "content": "P"}]
        assert AnswerProtocol(condition).answers("<answer>1</answer>", 0) == ["<answer>1</answer>"]
    for condition in ("ssot", "batch", "verbalized"):
        for axis in ("structured", "open"):
            messages = AnswerProtocol(condition, 7).messages(axis, "P", "developer")
            assert [message["role"] for message in messages] == ["developer", "user"]
            assert messages[1]["content"] == "P"
    assert " 7 " in AnswerProtocol("batch", 7).instruction("structured")
    tag, channel = (AnswerProtocol("ssot", answer_channel=c).instruction("open") for c in (None, "final"))
    assert "<answer>" in tag and "<answer>" not in channel and "final channel" in channel
