"""Drawing on the command line: the pipeline's own samples, read back, summed up, streamed, and refused with reasons."""

import itertools
import json
import os
import re
import sys

import pandas as pd
import pytest
import yaml

from pipeline import sample
from pipeline.artifacts.storage import read_table
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.prompts.structured import make_prompt
from pipeline.engines.loading.model import next_log_probabilities
from pipeline.engines.sampling.generate import Generation
from pipeline.engines.sampling.text_engine import Sample
from pipeline.errors import ArtifactError, ConfigError, DomainError, ModelError, PipelineError
from pipeline.inference import opening, sampling
from tests.conftest import ROOT
from tests.forked import ForkedModule
from tests.stages.conftest import run_stage

LAW = ["poisson", "lambda=4"]


@pytest.fixture
def run(project, monkeypatch, capsys):
    """What the command line does with these words; standard output and standard error."""

    def run_it(*words):
        monkeypatch.setattr(sys, "argv", ["sample", "--params", str(project.path), *map(str, words)])
        sample.main(**vars(sample.parse_arguments()))
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


DAYS = """
kind: categorical
probabilities: {Monday: 0.5, Tuesday: 0.3, Wednesday: 0.2}
templates: {train: [Name a random weekday.], test: [Pick any weekday.]}
"""
AGES = """
kind: empirical
table: ages.csv
column: age
templates: {train: [Name a random age.], test: ["How old is somebody?"]}
"""


def test_laws_of_ones_own_are_known(project, run, tmp_path, monkeypatch):
    (tmp_path / "days.yaml").write_text(DAYS)
    (tmp_path / "ages.yaml").write_text(AGES)
    (tmp_path / "ages.csv").write_text("age\n" + "\n".join(map(str, [20, 20, 30, 40])))
    values = yaml.safe_load(project.path.read_text())
    values["laws"] = {name: str(tmp_path / f"{name}.yaml") for name in ("days", "ages")}
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(values))

    def answers_of(*texts):
        """A model that gives these answers."""
        samples = [Sample("", place, Generation(0, text, 1, "stop")) for place, text in enumerate(texts)]
        monkeypatch.setattr(sampling, "draw", lambda engine, asked: iter(samples))

    answers_of("Monday", "Monday", " Tuesday", "Funday", "")
    out, err = run("Pick any weekday.", "--params", path, "-n", 5)
    assert out.split("\n")[:-1] == ["Monday", "Monday", " Tuesday", "Funday", ""]
    # Of three valid answers two thirds are Monday, one third Tuesday: off by .1667, .0333 and .2, half of which is .2.
    assert re.search(r"Wednesday +0\.0% .* 20\.0%", err) and "total variation" in err and "0.200 [" in err
    assert "60.0%" in err and "out_of_support 1" in err and "empty 1" in err
    answers_of("20", "20", "30", "40")
    _, err = run("How old is somebody?", "--params", path, "-n", 4)
    assert re.search(r"normalised W1 +0\.000", err) and "100.0%" in err
    with pytest.raises(ConfigError, match="the axis laws"):
        run("Pick any weekday.", "--params", path, "--exact")


def test_a_pipe_gets_the_answers_in_order_and_standard_error_the_summary(run, tmp_path):
    words = ["Name a colour.", "--condition", "soft", "-n", 70, "--seed", 5, "--max-new-tokens", 3]
    out, err = run(*words)
    path = tmp_path / "samples.csv"
    shown, _ = run(*words, "--output", path, "--batch-size", 3)
    table = pd.read_csv(path, keep_default_na=False)
    assert out.split("\n")[:-1] == [sample_line(text) for text in table["text"]]
    assert err == shown and "embedded-soft, 70 answers to: Name a colour." in err
    answer, count = table["answer"][table["invalid"] == ""].value_counts().pipe(lambda c: (c.index[0], c.iloc[0]))
    listed = [line for line in err.splitlines() if f" {count} " in line]
    assert any(sample_line(answer) in line and f"{count / 70:.1%}" in line for line in listed)
    assert run(*words)[0] == out and run(*words[:-3], 6, *words[-2:])[0] != out


def sample_line(text):
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def test_the_most_probable_answer_at_temperature_0(run):
    out, _ = run("Name a colour.", "-n", 5, "--temperature", 0, "--max-new-tokens", 4)
    assert len(set(out.splitlines())) == 1


def test_the_exact_law_has_the_bounds_of_the_pipeline(run, project):
    from pipeline.core.exact.number_law import NumberLawBounds

    weights = opening.find_weights(project.params, None, "soft", None)
    request = sampling.Request.of(sample.structured_text(LAW), project.params)
    loaded = opening.open_weights(weights, request.text)
    seen: list[NumberLawBounds] = []
    bounds = sampling.exact_bounds(request, weights, loaded, project.params, None, seen.append)
    from pipeline.axes.structured.exact import bound_figures
    from pipeline.engines.loading.chat import answer_terminator
    from pipeline.engines.loading.digit_rule import find_digit_tokens
    from pipeline.engines.scoring.tree_scorer import TreeScorer

    rule = find_digit_tokens(loaded.tokenizer, answer_terminator(loaded.tokenizer, "eos"), 2)
    ids = loaded.encode(request.text)
    figures = bound_figures(project.params, TreeScorer(loaded.model), ids, request.prompt, rule)
    assert (bounds.wasserstein_1_low, bounds.wasserstein_1_high) == (
        figures["wasserstein_1_low"],
        figures["wasserstein_1_high"],
    )
    assert seen[-1].positions == bounds.positions
    out, _ = run("--law", *LAW, "--condition", "soft", "--exact")
    assert f"{bounds.wasserstein_1_low:.4f} to {bounds.wasserstein_1_high:.4f}" in out


def test_a_scaled_adapter_is_that_share_of_the_update(project):
    probe, laws = "A number.", {}
    for condition in ("base", "soft", "soft@1.0", "soft@0.5"):
        weights = opening.find_weights(project.params, "embedded", condition, None)
        loaded = opening.open_weights(weights, probe)
        laws[condition] = next_log_probabilities(loaded.model, [loaded.encode(probe)])
        if condition == "soft":
            for _, module in loaded.model.named_modules():
                if isinstance(getattr(module, "scaling", None), dict):
                    module.scaling = {key: value / 2 for key, value in module.scaling.items()}
            half = next_log_probabilities(loaded.model, [loaded.encode(probe)])
    assert laws["soft@1.0"].equal(laws["soft"]) and not laws["soft"].equal(laws["base"])
    assert laws["soft@0.5"].allclose(half, atol=1e-5) and not laws["soft@0.5"].allclose(laws["soft"], atol=1e-2)


def test_any_checkpoint_with_any_adapter(project, tiny_model, run, tmp_path):
    words = ["Name a colour.", "--adapter", project.adapter, "-n", 4, "--max-new-tokens", 2]
    out, err = run(*words, "--model", tiny_model)
    assert len(out.splitlines()) == 4 and f"{tiny_model}-soft, 4 answers" in err.replace("\n", "")
    with pytest.raises(ModelError, match="has no adapter_config.json"):
        run(*words[:2], tmp_path, "--model", tiny_model)


def test_what_was_drawn_before_an_interruption_is_summed_up(run, tmp_path, monkeypatch, capsys):
    draw, path = sampling.draw, tmp_path / "samples.jsonl"

    def interrupted(*arguments):
        yield from itertools.islice(draw(*arguments), 3)
        raise KeyboardInterrupt

    monkeypatch.setattr(sampling, "draw", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("Name a colour.", "-n", 50, "--max-new-tokens", 2, "--output", path)
    assert "3 answers to: Name a colour." in capsys.readouterr().out and len(path.read_text().splitlines()) == 3


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
        (["a", "--condition", "ssot"], ConfigError, "there are base, soft, hard, and METHOD@WEIGHT"),
        (
            ["a", "--condition", "hard"],
            ArtifactError,
            "hard is not trained yet; `dvc repro train-hard@embedded` makes it",
        ),
        (["a", "--condition", "soft@0"], ConfigError, "not a number above 0"),
        (["a", "--condition", "soft", "--adapter", "x"], ConfigError, "name two adapters"),
        (["a\udc80"], ConfigError, "no text in UTF-8"),
        (["a", "-n", "0"], ConfigError, "--num-samples: 0 is not between 1"),
        (["a", "--top-p", "1.5"], ConfigError, "--top-p: 1.5 is not between"),
        (["a", "--temperature", "nan"], ConfigError, "--temperature: nan is not between 0"),
        (["a", "--exact"], ConfigError, "--exact needs a structured request"),
        (["--law", *LAW, "--exact", "--temperature", "0.5"], ConfigError, "--temperature is for samples"),
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
