"""Drawing on the command line: the pipeline's own samples, read back, summed up, streamed, and refused with reasons."""

import io
import json
import os
import re
import sys

import pandas as pd
import pytest
from rich.console import Console

from pipeline import sample
from pipeline.artifacts.storage import read_table
from pipeline.commands import parse_arguments
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.prompts.structured import make_prompt
from pipeline.engines.sampling.generate import Generation
from pipeline.engines.sampling.text_engine import Sample
from pipeline.errors import ArtifactError, ConfigError, DomainError, ModelError, PipelineError
from tests.composition import write_changed
from tests.conftest import ROOT
from tests.forked import ForkedModule
from tests.stages.conftest import run_stage

LAW = ["poisson", "lambda=4"]


@pytest.fixture
def run(project, monkeypatch, capsys):
    """What the command line does with these words; standard output and standard error."""

    def run_it(*words):
        monkeypatch.setattr(sys, "argv", ["sample", "--params", str(project.path), *map(str, words)])
        sample.main(**vars(parse_arguments("pipeline.sample")))
        return capsys.readouterr()

    return run_it


def test_the_answers_are_those_of_the_pipeline(project, run, tmp_path):
    for name in ("build-prompts", "check-model@embedded"):
        run_stage(project.path, name)
    generated = run_stage(project.path, "generate-structured@embedded-soft").paths["output"]
    prompt = make_prompt("poisson", {"lambda": 4.0}, "ood")
    table = read_table(generated, ["prompt_id"]).query("prompt_id == @prompt.prompt_id")
    expected = table.sort_values("sample_index").drop(columns="prompt_id").to_dict("records")
    for size in (1, 5, 64):
        path = tmp_path / f"{size}.jsonl"
        run("--law", *LAW, "--condition", "soft", "--batch-size", size, "--output", path)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert [{key: row[key] for key in expected[0]} for row in rows] == expected
    for row in rows:
        read = parse_sample(row["text"], prompt.support, integer=True)
        assert (row["answer"], row["invalid"]) == ((None, read.value) if isinstance(read, Invalid) else (read, None))


AGES = """
kind: empirical
table: ages.csv
column: age
templates: {train: [Name a random age.], test: ["How old is somebody?"]}
"""


def test_laws_of_ones_own_are_known(project, run, tmp_path, monkeypatch):
    (tmp_path / "ages.yaml").write_text(AGES)
    (tmp_path / "ages.csv").write_text("age\n" + "\n".join(map(str, [20, 20, 30, 40])))
    path = write_changed(project.path, tmp_path / "params.yaml", laws={"ages": str(tmp_path / "ages.yaml")})

    texts = ["20", " 20", "30", "40", "99", "Monday", ""]
    samples = [Sample("", place, Generation(0, text, 1, "stop")) for place, text in enumerate(texts)]
    monkeypatch.setattr(sample, "draw", lambda engine, asked: iter(samples))
    out, err = run("How old is somebody?", "--params", path, "-n", 7)
    assert out.split("\n")[:-1] == texts
    # Four of the five numbers are in the support and match the law.
    assert re.search(r"normalised W1 +0\.000", err) and "57.1%" in err and re.search(r"\n50% +20 +20 *\n", err)
    assert all(f"{reason} 1" in err for reason in ("out_of_support", "not_a_number", "empty"))


def test_a_pipe_gets_the_answers_in_order_and_standard_error_the_summary(run, tmp_path):
    words = ["Name a colour.", "--condition", "soft", "-n", 300, "--seed", 5, "--max-new-tokens", 3]
    out, err = run(*words)
    path = tmp_path / "samples.csv"
    shown, _ = run(*words, "--output", path, "--batch-size", 3)
    table = pd.read_csv(path, keep_default_na=False)
    assert out.split("\n")[:-1] == [sample.one_line(text) for text in table["text"]]
    assert list(table["sample_index"]) == list(range(300))
    assert err == shown and "embedded-soft, 300 answers to: Name a colour." in err
    answer, count = table["answer"][table["invalid"] == ""].value_counts().pipe(lambda c: (c.index[0], c.iloc[0]))
    listed = [line for line in err.splitlines() if f" {count} " in line]
    assert any(sample.one_line(answer) in line and f"{count / 300:.1%}" in line for line in listed)
    assert run(*words[:-3], 6, *words[-2:])[0] != out


def test_the_most_probable_answer_at_temperature_0(run):
    out, _ = run("Name a colour.", "-n", 5, "--temperature", 0, "--max-new-tokens", 4)
    assert len(set(out.splitlines())) == 1


def test_any_checkpoint_with_any_adapter(project, tiny_model, run, tmp_path):
    words = ["Name a colour.", "--adapter", project.adapter, "-n", 4, "--max-new-tokens", 2]
    out, err = run(*words, "--model", tiny_model)
    assert len(out.splitlines()) == 4 and f"{tiny_model}-soft, 4 answers" in err.replace("\n", "")
    with pytest.raises(ModelError, match="has no adapter_config.json"):
        run(*words[:2], tmp_path, "--model", tiny_model)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ([], ConfigError, "give a request, or --law"),
        (["a", "--law", "poisson", "lambda=4"], ConfigError, "not both"),
        (["--law", "poisson", "lambda"], ConfigError, "is not FAMILY NAME=VALUE"),
        (["--law", "normal", "mu=1"], DomainError, "known families: uniform"),
        (["--law", "poisson", "lambda=-1"], DomainError, "a number in"),
        (["a", "--model", "other"], ConfigError, "has no 'other'; there are embedded"),
        (["a", "--model", "./nowhere"], PipelineError, "nowhere"),
        (["a", "--condition", "sot"], ConfigError, "has no 'sot'; did you mean soft. there are base, soft, hard"),
        (["a", "--condition", "hard"], ArtifactError, "not trained yet; `dvc repro` makes it"),
        (["a", "--condition", "soft", "--adapter", "x"], ConfigError, "name two adapters"),
        (["a\udc80"], ConfigError, "no text in UTF-8"),
        (["a", "--output", "x.txt"], ConfigError, "neither of .csv, .jsonl"),
        (["a", "--output", "nowhere/x.csv"], ConfigError, "nowhere does not exist"),
        (["a", "--max-new-tokens", "900000"], ConfigError, "takes [0-9]+ together"),
    ],
)
def test_what_does_not_work_is_said_in_a_sentence(run, words, error, message):
    with pytest.raises(error, match=message):
        run(*words)


def test_a_reader_that_has_enough_ends_the_drawing(project, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = ["--params", str(project.path), "--law", *LAW, "-n", "100000", "--condition", "soft"]
    process = ForkedModule(["pipeline.sample", *words], ROOT, tmp_path / "errors", pipe, COLUMNS="200")
    with pipe.open() as answers:
        first = answers.readline()
    assert process.wait() == 0 and first and "Traceback" not in process.errors
    assert "answers to: Generate exactly ONE random number" in process.errors


def test_answers_cannot_command_the_terminal():
    assert sample.one_line("a\x1b[2Jb\nc\u202e é") == "a\\x1b[2Jb\\nc\\u202e é"
    row = {"answer": "[red]\x1b[2J", "invalid": None, "finish_reason": "stop"}
    file = io.StringIO()
    sample.show(Console(file=file, width=100), "m", "[bold]", [row] * 3, *sample.commonest([row] * 3))
    assert "[red]\\x1b[2J" in file.getvalue() and "[bold]" in file.getvalue() and "\x1b" not in file.getvalue()
