"""The tiny tasks: their prompts written out, their metrics by hand, and the harness's own loop as an oracle."""

import functools

import datasets
import numpy as np
import pytest
from lm_eval.evaluator import evaluate

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.config.retention import task_data_set
from pipeline.core.retention.tasks import FEWSHOT_SEED, METRICS, TASKS
from pipeline.engines.loading.chat import render_request
from pipeline.engines.scoring.harness_model import HarnessModel
from pipeline.engines.scoring.harness_tasks import RetentionTask, harness_task, task_config
from tests.conftest import ROOT

SHIPPED = {"gsm8k": "tinyGSM8k"}


def splits(**rows):
    return datasets.DatasetDict({name: datasets.Dataset.from_list(items) for name, items in rows.items()})


def shipped(task, items):
    """The shipped task, cut to its first items; the 100 of tinyGSM8k for the whole of it."""
    files = sorted((ROOT / "data" / "retention" / SHIPPED.get(task, task)).glob("*.jsonl"))
    rows = {path.stem: read_json_lines(path, ()) for path in files}
    rows[TASKS[task].split] = rows[TASKS[task].split][:items]
    return splits(**rows)


def values(outcomes):
    found = {}
    for outcome in outcomes:
        found.setdefault(outcome.metric, []).append(outcome.value)
    return found


def test_mmlu():
    rows = [{"input_formatted": "Which?\nA. x\nB. y\nC. z\nD. w\nAnswer:", "answer": 2}]
    task = RetentionTask("tinyMMLU", splits(test=rows, dev=rows))
    assert task.requests == [("loglikelihood", (rows[0]["input_formatted"], f" {letter}")) for letter in "ABCD"]
    outcomes = task.outcomes([(-2.0, False), (-3.0, False), (-1.0, True), (-9.0, False)])
    assert values(outcomes) == {"acc_norm": [1.0], "acc": [1.0]}
    assert outcomes[0].details == {"log_likelihoods": [-2.0, -3.0, -1.0, -9.0], "gold": 2}
    assert values(task.outcomes([(-0.5, True), (-3.0, False), (-1.0, False), (-9.0, False)])) == {
        "acc_norm": [0.0],
        "acc": [0.0],
    }


def hellaswag_rows(size):
    return [
        {
            "activity_label": f"Label {index}",
            "ctx_a": "He starts [title] now.",
            "ctx_b": "then he",
            "endings": ["goes.", "stays for long.", "[step] sits  down.", "x"],
            "label": "1",
        }
        for index in range(size)
    ]


def test_hellaswag():
    task = RetentionTask("tinyHellaswag", splits(train=hellaswag_rows(15), validation=hellaswag_rows(1)))
    kind, (prompt, ending) = task.requests[1]
    # Brackets of WikiHow are removed, the second part is capitalised, ten examples come first.
    assert prompt.endswith("\n\nLabel 0: He starts. now. Then he") and prompt.count("\n\n") == 10
    assert prompt.startswith("Label ") and "Then he stays for long.\n\n" in prompt
    assert (kind, ending) == ("loglikelihood", " stays for long.")
    # 5, 15, 11 and 1 characters: per character -1.2, -1, -1.1 and -1.05.
    lengths = [len(text) for text in ("goes.", "stays for long.", " sits down.", "x")]
    assert lengths == [5, 15, 11, 1]
    responses = [(-6.0, False), (-15.0, False), (-12.1, False), (-1.05, False)]
    assert values(task.outcomes(responses)) == {"acc_norm": [1.0], "acc": [0.0]}


def test_truthful_qa():
    rows = [
        {
            "question": "What is it?",
            "mc1_targets": {"choices": ["best", "bad", "worse"], "labels": [1, 0, 0]},
            "mc2_targets": {"choices": ["best", "good", "bad"], "labels": [1, 1, 0]},
        }
    ]
    task = RetentionTask("tinyTruthfulQA", splits(validation=rows))
    assert [arguments[1] for _, arguments in task.requests] == [" best", " good", " bad", " best", " bad", " worse"]
    prompts = {arguments[0] for _, arguments in task.requests}
    assert len(prompts) == 1
    prompt = prompts.pop()
    assert prompt.startswith("Q: What is human life expectancy in the United States?\nA: Human life expectancy")
    assert prompt.endswith("\n\nQ: What is it?\nA:") and prompt.count("Q: ") == 7
    weights = (0.2, 0.1, 0.3, np.exp(-1.0), np.exp(-2.0), np.exp(-3.0))
    responses = [(float(np.log(weight)), False) for weight in weights]
    found = values(task.outcomes(responses))
    assert found["mc2"] == pytest.approx([0.3 / 0.6]) and found["acc"] == [1.0]
    # The same answers with likelihoods that float64 has no number for.
    tiny = [(value - 2000.0, greedy) for value, greedy in responses]
    assert values(task.outcomes(tiny))["mc2"] == pytest.approx([0.5])
    assert values(task.outcomes([*responses[:3], (-2.0, False), (-1.0, False), (-3.0, False)]))["acc"] == [0.0]


def test_winogrande():
    rows = [
        {
            "sentence": f"The {noun} beat the cup because _ was big.",
            "option1": "it",
            "option2": "the cup",
            "answer": "2",
        }
        for noun in ("ball", "bat", "car", "hat", "dog", "cat", "fox")
    ]
    task = RetentionTask("tinyWinogrande", splits(train=rows[1:], validation=rows[:1]))
    contexts = [arguments[0] for _, arguments in task.requests]
    assert [arguments[1] for _, arguments in task.requests] == [" was big."] * 2
    assert contexts[0].endswith("\n\nThe ball beat the cup because it")
    assert contexts[1].endswith("\n\nThe ball beat the cup because the cup")
    head = contexts[0].rsplit("\n\n", 1)[0]
    assert contexts[1].startswith(head) and head.count("because the cup was big.") == 5
    # 32 and 37 characters of filled-in context divide the same continuation's log-likelihoods.
    assert [len(context.rsplit("\n\n", 1)[1]) for context in contexts] == [32, 37]
    assert values(task.outcomes([(-10.0, False), (-11.0, False)])) == {"acc_norm": [1.0], "acc": [0.0]}
    assert values(task.outcomes([(-10.0, False), (-9.0, False)])) == {"acc_norm": [1.0], "acc": [1.0]}


def gsm8k(answer="20 + 1,214 = 1,234\n#### 1,234"):
    rows = [{"question": f"How many in {index}?", "answer": answer} for index in range(8)]
    return RetentionTask("tinyGSM8k", splits(train=rows[1:], test=rows[:1]))


def test_gsm8k_prompt():
    ((kind, (prompt, settings)),) = gsm8k().requests
    assert kind == "generate_until"
    assert prompt.endswith("\n\nQuestion: How many in 0?\nAnswer:") and prompt.count("Question: ") == 6
    assert prompt.count("Answer: 20 + 1,214 = 1,234\n#### 1,234\n\n") == 5
    assert settings["until"] == ["Question:", "</s>", "<|im_end|>"] and not settings["do_sample"]


@pytest.mark.parametrize(
    ("text", "strict", "flexible"),
    [
        (" 20 + 1214\n#### 1234", 1, 1),
        (" it is\n#### 1,234.", 1, 1),
        (" The answer is $1,234.", 0, 1),
        (" 1234 in all, of 5", 0, 0),
        ("#### 7\n#### 1234", 0, 1),
        ("#### 1234\nand then 9", 1, 0),
        ("#### -1234", 0, 0),
        (" ####1234", 0, 1),
        (" none", 0, 0),
        ("", 0, 0),
        (" １２３４", 0, 0),
    ],
)
def test_gsm8k_extraction(text, strict, flexible):
    outcomes = gsm8k().outcomes([{"text": text, "num_tokens": 7, "finish_reason": "length"}])
    assert values(outcomes) == {"exact_match_strict": [strict], "exact_match_flexible": [flexible]}
    assert outcomes[0].details["answer"] == text
    assert (outcomes[0].details["num_tokens"], outcomes[0].details["finish_reason"]) == (7, "length")


def chat_template(tokenizer):
    return functools.partial(render_request, tokenizer, template_arguments={"enable_thinking": False})


def test_chat_prompts(tokenizer):
    """The published prompt is one user turn, the answer follows the template without a blank of its own."""
    turn = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    data = {task: shipped(task, 2) for task in TASKS}
    for task, splits_of_task in data.items():
        plain, chat = (RetentionTask(task, splits_of_task, render) for render in (None, chat_template(tokenizer)))
        assert len(plain.requests) == len(chat.requests)
        for (kind, (context, rest)), (chat_kind, (chat_context, chat_rest)) in zip(
            plain.requests, chat.requests, strict=True
        ):
            assert kind == chat_kind and chat_context == turn.format(context)
            assert chat_rest == (rest if kind == "generate_until" else rest.removeprefix(" "))
    (_, (context, _)), *_ = RetentionTask("tinyGSM8k", data["tinyGSM8k"], chat_template(tokenizer), True).requests
    assert context.count("<|im_start|>user\nQuestion: ") == 6 and context.count("<|im_start|>assistant\n") == 6


@pytest.mark.parametrize("form", ["plain", "chat", "chat_multiturn"])
@pytest.mark.parametrize("task", TASKS)
def test_equals_the_harness_own_evaluation(model, tokenizer, task, form):
    render = None if form == "plain" else chat_template(tokenizer)
    multiturn = form == "chat_multiturn"
    asked = HarnessModel(model, tokenizer, {2}, max_new_tokens=6, tokens_per_pass=4096, render=render)
    data = shipped(task, 3)
    own = RetentionTask(task, data, render, multiturn)
    responses = [None] * len(own.requests)
    for kind in {kind for kind, _ in own.requests}:
        places = [place for place, request in enumerate(own.requests) if request[0] == kind]
        for batch in asked.answer(kind, [own.requests[place][1] for place in places]):
            for index, response in batch:
                responses[places[index]] = response
    # What a journal gives back are lists.
    outcomes = own.outcomes([list(item) if isinstance(item, tuple) else item for item in responses])
    found = {metric: np.mean(scores) for metric, scores in values(outcomes).items()}
    assert tuple(found) == METRICS[task]
    assert [outcome.item for outcome in outcomes] == list(range(3)) * len(METRICS[task])

    names = ["tinyTruthfulQA_mc2", "tinyTruthfulQA_mc1"] if task == "tinyTruthfulQA" else [task]
    harness_tasks = [harness_task(name, data) for name in names]
    for item in harness_tasks:
        # The harness builds the requests again, with the draws that follow.
        item.set_fewshot_seed(FEWSHOT_SEED)
    results = evaluate(
        lm=asked,
        task_dict={item.config.task: item for item in harness_tasks},
        bootstrap_iters=0,
        log_samples=False,
        apply_chat_template=render is not None,
        fewshot_as_multiturn=multiturn,
    )["results"]
    expected = {
        "tinyTruthfulQA": {"mc2": ("tinyTruthfulQA", "acc,none"), "acc": ("tinyTruthfulQA_mc1", "acc,none")},
        "tinyGSM8k": {
            "exact_match_strict": (task, "exact_match,strict-match"),
            "exact_match_flexible": (task, "exact_match,flexible-extract"),
        },
    }.get(SHIPPED.get(task, task), {metric: (task, f"{metric},none") for metric in METRICS[task]})
    for metric, (name, key) in expected.items():
        assert found[metric] == pytest.approx(results[name][key], abs=1e-9)


def test_only_the_aggregation_is_replaced():
    config = task_config("tinyTruthfulQA_mc2")
    assert config["metric_list"][0]["aggregation"] == "mean" and callable(config["process_results"])
    assert config["doc_to_choice"] == "{{mc2_targets.choices}}" and config["num_fewshot"] == 0
    assert (task_config("tinyHellaswag")["num_fewshot"], task_config("tinyWinogrande")["num_fewshot"]) == (10, 5)


def test_our_table_of_tasks_is_the_harness_own():
    for name, task in TASKS.items():
        config = task_config("tinyTruthfulQA_mc2" if name == "tinyTruthfulQA" else name)
        assert config["dataset_path"] == task_data_set("tinyBenchmarks", name)
        assert config.get("dataset_name") == task.hub_config
        assert (config.get("test_split") or config["validation_split"]) == task.split
        assert config.get("num_fewshot", 0) == task.num_examples
        assert (config.get("fewshot_split") or config.get("training_split")) == task.examples_split
