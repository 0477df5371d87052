"""The tiny tasks' stage on the tiny model: what it writes, how it resumes, what it says about bad data."""

import json
import shutil

import pandas as pd
import pytest

from pipeline.artifacts.prompts import write_prompts
from pipeline.axes.retention import score as score_retention
from pipeline.config.params import load_params
from pipeline.config.retention import TINY_TASKS
from pipeline.core.prompts.structured import build_split
from pipeline.core.retention.tasks import METRICS, TASKS
from pipeline.engines.scoring.task_model import TaskModel
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.fetch import downloads
from pipeline.sources.retention_data import pinned_revisions, read_task
from tests.composition import write_changed
from tests.conftest import ROOT
from tests.stages.conftest import run_stage

ITEMS = 3
GENERATED = {"answer", "extracted", "gold", "num_tokens", "finish_reason"}


@pytest.fixture(scope="module")
def report(tiny_params, tmp_path_factory):
    """Of check_model, whose request is the first of a small table of prompts."""
    root = tmp_path_factory.mktemp("retention model")
    write_prompts(root / "ood.parquet", build_split("ood", selection="selected", families=["poisson"]))
    run_stage(
        tiny_params, "check-model@embedded", prompts=[root / "ood.parquet"], output=root / "models" / "embedded.json"
    )
    return root / "models" / "embedded.json"


@pytest.fixture
def source(tmp_path):
    """The shipped data sets, cut to a few items each."""
    directory = tmp_path / "data"
    for task in TINY_TASKS:
        folder, wanted = ROOT / "data" / "retention" / task, TASKS[task]
        (directory / task).mkdir(parents=True)
        for path in folder.glob("*.jsonl"):
            lines = path.read_text().splitlines(keepends=True)
            kept = lines[:ITEMS] if path.stem == wanted.split else lines
            (directory / task / path.name).write_text("".join(kept))
    return directory


@pytest.fixture
def params(tiny_params, report, source, tmp_path):
    shutil.copytree(report.parent, tmp_path / "artifacts" / "models")
    path = write_changed(tiny_params, tmp_path / "params.yaml", artifacts=str(tmp_path / "artifacts"))
    with_settings(path, source=str(source), tasks=list(TINY_TASKS), max_new_tokens=5, tokens_per_pass=4096)
    return path


@pytest.fixture
def run(params, tmp_path):
    def score(output="scores.parquet"):
        run_stage(params, "score-retention@embedded-base", output=tmp_path / output)
        return pd.read_parquet(tmp_path / output)

    return score


def with_settings(params, **changes):
    write_changed(params, params, **{f"retention__{name}": value for name, value in changes.items()})
    return load_params(params).retention


def test_one_row_per_task_item_and_metric(run, tmp_path, capsys):
    table = run()
    expected = [(task, item, metric) for task in TINY_TASKS for metric in METRICS[task] for item in range(ITEMS)]
    assert list(zip(table["task"], table["item"], table["metric"], strict=True)) == expected
    assert tuple(table.columns) == score_retention.ITEM_SCORE_COLUMNS
    assert table["value"].dtype == "float64" and table["value"].between(0, 1).all()
    details = [json.loads(text) for text in table["details"]]
    for task, detail in zip(table["task"], details, strict=True):
        assert set(detail) == (GENERATED if task == "tinyGSM8k" else {"log_likelihoods", "gold"})
    assert all(value < 0 for value in details[0]["log_likelihoods"]) and len(details[0]["log_likelihoods"]) == 4
    provenance = json.loads((tmp_path / "scores.provenance.json").read_text())
    assert provenance["num_items"] == dict.fromkeys(TINY_TASKS, ITEMS)
    assert "tinyMMLU: 3 items, where the published task has 100" in capsys.readouterr().out
    assert provenance["found"]["revisions"] == dict.fromkeys(TINY_TASKS)
    assert not list((tmp_path / "artifacts" / "unfinished").rglob("*.jsonl"))


def test_a_killed_run_asks_for_what_is_left(run, tmp_path, monkeypatch):
    whole, answer, asked = run(), TaskModel.answer, []

    def killed(self, kind, arguments):
        for number, batch in enumerate(answer(self, kind, arguments)):
            if number == 1:
                raise KeyboardInterrupt
            yield batch

    def counted(self, kind, arguments):
        asked.extend(arguments)
        return answer(self, kind, arguments)

    monkeypatch.setattr(TaskModel, "answer", killed)
    with pytest.raises(KeyboardInterrupt):
        run("again.parquet")
    assert not (tmp_path / "again.parquet").exists()
    monkeypatch.setattr(TaskModel, "answer", counted)
    again, left = run("again.parquet"), len(asked)
    assert again.drop(columns=["value", "details"]).equals(whole.drop(columns=["value", "details"]))
    assert again["value"].to_numpy() == pytest.approx(whole["value"].to_numpy(), abs=1e-4)
    asked.clear()
    run("anew.parquet")
    assert 0 < left < len(asked)


def test_prompts_are_in_the_chat_template_where_there_is_one(run, params, tiny_model, tmp_path, monkeypatch, capsys):
    asked, answer = [], TaskModel.answer

    def kept(self, kind, arguments):
        asked.extend(context for context, _ in arguments)
        return answer(self, kind, arguments)

    def contexts(form, **changes):
        """What is asked with changed settings of the model."""
        write_changed(params, params, **{f"models__embedded__{name}": value for name, value in changes.items()})
        asked.clear()
        assert set(run()["prompt_format"]) == {form} and asked
        record = json.loads((tmp_path / "scores.provenance.json").read_text())
        assert record["found"]["prompt_format"] == form
        return list(asked)

    monkeypatch.setattr(TaskModel, "answer", kept)
    end = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    for text in contexts("chat"):
        assert text.startswith("<|im_start|>user\n") and text.endswith(end) and text.count("<|im_start|>") == 2
    # GPT-OSS's way: the answer goes into the final channel, which the prompt opens.
    channel = "<|channel|>final<|message|>"
    assert all(text.endswith(f"{end}{channel}") for text in contexts("chat", chat__answer_prefix=channel))
    with_settings(params, prompt_format="plain")
    assert not any("<|im_start|>" in text for text in contexts("plain"))
    # Without a template there is no other form, and the artifact says so.
    with_settings(params, prompt_format="chat")
    shutil.copytree(tiny_model, tmp_path / "bare", ignore=shutil.ignore_patterns("chat_template.jinja"))
    assert not any("<|im_start|>" in text for text in contexts("plain", checkpoint=str(tmp_path / "bare")))
    assert "the model has no chat template; prompts are plain text" in capsys.readouterr().out


def gsm8k_rows(number):
    """Problems as GSM8K's own files have them."""
    return [
        {
            "question": f"Ann has {size} pens and buys 5. How many does she have?",
            "answer": f"She has {size} + 5 = <<{size}+5={size + 5}>>{size + 5} pens.\n#### {size + 5}",
        }
        for size in range(number)
    ]


def test_the_whole_of_gsm8k(run, params, source, tmp_path, capsys, monkeypatch):
    rows = {"train": gsm8k_rows(8), "test": gsm8k_rows(4)}
    (source / "gsm8k").mkdir()
    for split, members in rows.items():
        text = "".join(json.dumps(row) + "\n" for row in members)
        (source / "gsm8k" / f"{split}.jsonl").write_text(text)
    with_settings(params, tasks=["tinyGSM8k", "gsm8k"])
    table = run()
    assert table.groupby(["task", "metric"]).size().to_dict() == {
        (task, metric): size
        for task, size in (("tinyGSM8k", ITEMS), ("gsm8k", 4))
        for metric in ("exact_match_flexible", "exact_match_strict")
    }
    assert "gsm8k: 4 items, where the published task has 1319" in capsys.readouterr().out
    # The hub's data set is its own, at its own commit.
    commit = "0123456789abcdef0123456789abcdef01234567"
    monkeypatch.setattr("pipeline.sources.retention_data.fetched", lambda *wanted: source / "gsm8k")
    revisions = dict.fromkeys(["tinyGSM8k", "gsm8k"], commit)
    settings = with_settings(params, source="tinyBenchmarks", revisions=revisions)
    assert pinned_revisions(settings) == revisions
    assert read_task(settings, "gsm8k", revisions)["test"].to_list() == rows["test"]
    wanted = [(item.key, item.repository, item.revision) for item in downloads(load_params(params))]
    assert ("retention.revisions.gsm8k", "openai/gsm8k", commit) in wanted
    with pytest.raises(ConfigError, match=r"tasks has gsm8k, which is evaluated alone or beside tinyGSM8k: add it"):
        with_settings(params, tasks=["tinyMMLU", "gsm8k"])


def changed(task, name, change):
    """A change of the lines of a file below the source; None removes it."""

    def edit(source):
        path = source / task / f"{name}.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        path.unlink()
        if change is not None:
            path.write_text("".join(change(lines)))

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            changed("tinyWinogrande", "train", lambda lines: [line.replace('"option2"', '"x"') for line in lines]),
            "needs the column 'option2' in the split 'train'; it has sentence, option1, x, answer",
        ),
        (lambda source: shutil.rmtree(source / "tinyGSM8k"), "no folder tinyGSM8k; it has tinyHellaswag, tinyMMLU, "),
        (changed("tinyGSM8k", "train", None), "tinyGSM8k needs the split 'train'; found: test"),
        (changed("tinyMMLU", "test", lambda lines: ['{"input_formatted": "a", "answ']), "cannot read the data set"),
    ],
)
def test_bad_data_is_named_before_the_model_is_loaded(run, source, monkeypatch, edit, message):
    monkeypatch.setattr(score_retention, "open_model", None)
    edit(source)
    with pytest.raises(ArtifactError, match=message):
        run()
