"""Model cards: every number with its size and interval, in the text and in the hub's own form."""

import math
import re
from dataclasses import replace
from datetime import date

import pytest
from huggingface_hub import ModelCard, metadata_load
from huggingface_hub.repocard_data import model_index_to_eval_results

from pipeline.compose import compose_params
from pipeline.config.params import validate
from pipeline.publish.card import Publication, evaluation_results, model_card, request_code, result_rows, training_rows
from pipeline.publish.directory import trained_methods
from pipeline.publish.licence import Licence
from tests.conftest import ROOT
from tests.report.conftest import metric_frame, metric_row

COMMIT = "c" * 40
RECORD = {
    "git": {"commit": COMMIT, "modified": False},
    "steps": 375,
    "wall_time_seconds": 191.2,
    "device": "a GPU",
    "started": "2026-01-01T00:00:00+00:00",
    "python": "3.12.1",
    "packages": {"torch": "2.13.0", "peft": "0.21.2"},
}
LAW = "structured"
NUM_VALID = {"base": 5980, "soft": 5990}


def rows(condition, value):
    named = ("embedded", condition)
    found = [
        metric_row(LAW, *named, split, "wasserstein_1_normalised", value, n=NUM_VALID[condition], floor=0.023)
        for split in ("ood", "unseen")
    ]
    found.append(metric_row(LAW, *named, "ood", "valid_rate", 0.975, n=6000))
    found.append(metric_row("paloma", *named, "all", "bits_per_byte", 2.5, n=262, width=0.25))
    if condition != "base":
        found.append(metric_row("paloma", *named, "all", "bits_per_byte_difference", 0.18, n=262))
        found.append(metric_row("anchors", *named, "all", "anchor_kl_nats", 0.07, n=96))
    return found


@pytest.fixture(scope="module")
def params():
    return validate(compose_params(ROOT / "conf", ["methods=frontier", "axes=[structured,paloma,anchors,mcq]"]))


@pytest.fixture
def publication(params):
    report = {
        "checkpoint": "owner/base",
        "revision": COMMIT,
        "quantisation": None,
        "terminator": "<|im_end|>",
        "example_request": "<|im_start|>user\nGenerate<|im_end|>\n",
    }
    return Publication(
        params=params,
        model="embedded",
        method="soft",
        report=report,
        training={"soft": RECORD},
        adapter=RECORD,
        evaluations={(LAW, "base"): RECORD, (LAW, "soft"): {**RECORD, "git": {"commit": "d" * 40, "modified": True}}},
        metrics=metric_frame([*rows("base", 0.195), *rows("soft", 0.088)]),
        licence=Licence("apache-2.0", "the model card of owner/base"),
        prompt="Generate exactly ONE random number.",
        has_template=True,
        own_requests={},
        num_requests=1984,
    )


def with_base(publication, **report):
    return replace(publication, report={**publication.report, **report})


def with_chat(publication, **chat):
    model = publication.params.models["embedded"]
    changed = replace(model, chat=replace(model.chat, **chat))
    return replace(publication, params=replace(publication.params, models={"embedded": changed}))


def test_the_hub_reads_what_was_written(publication, tmp_path):
    card = model_card(publication)
    card.save(tmp_path / "README.md")
    metadata = metadata_load(tmp_path / "README.md")
    assert {key: metadata[key] for key in ("base_model", "base_model_relation", "license", "library_name")} == {
        "base_model": "owner/base",
        "base_model_relation": "adapter",
        "license": "apache-2.0",
        "library_name": "peft",
    }
    name, results = model_index_to_eval_results(metadata["model-index"])
    assert name == "Embedded-3.5M, soft"
    found = {(result.dataset_split, result.metric_type): result for result in results}
    w1 = found["ood", "wasserstein_1_normalised"]
    assert w1.metric_value == 0.088 and w1.dataset_name == "Structured sampling, held-out families"
    assert "n = 5,990 valid answers, 95% interval [0.078, 0.098], a perfect sampler scores 0.023" in w1.metric_name
    # What stands in the metadata is the adapter's; nothing of base is.
    assert {result.metric_value for result in results} == {0.088, 0.975, 2.5, 0.18, 0.07}
    assert ModelCard.load(tmp_path / "README.md").data.to_dict() == card.data.to_dict()


def test_numbers_stand_with_interval_size_and_floor(publication):
    text = model_card(publication).text
    section = text.split("**Held-out families**")[1]
    line = next(line for line in section.splitlines() if line.startswith("| W1"))
    cells = [cell.strip().replace("\\", "") for cell in line.strip("|").split(" | ")]
    assert cells[1:] == [
        "lower",
        "0.1950 [0.1850, 0.2050]",
        "0.0880 [0.0780, 0.0980]",
        "0.0230",
        "5,980 / 5,990 valid answers",
    ]
    # Differences and divergence from base are the adapter's alone.
    assert re.search(r"Bits per byte, change.*\| — \| 0\.1800", text)
    assert "0.0700 \\[0.0600, 0.0800\\] | 96 instructions" in text or "0.0700 \\[0.0600, 0.0800\\]" in text
    assert "Not evaluated:" in text and "Multiple-choice questions" in text.split("Not evaluated:")[1].splitlines()[0]
    assert not re.search(r"\bnan\b|\bNone\b|\{\{|\{%", text)


@pytest.mark.parametrize(
    ("selection", "place"), [("selected", "outside"), ("full", "outside"), ("interpolated", "inside")]
)
def test_where_unseen_parameters_lie_is_said(publication, selection, place):
    params = publication.params
    params = replace(params, prompts=replace(params.prompts, unseen_selection=selection))
    text = model_card(replace(publication, params=params)).text
    assert f"**Unseen parameters, {place} the ranges of training**" in text and "**Held-out families**" in text


def test_undefined_numbers_are_said_and_are_not_in_the_metadata(publication):
    frame = publication.metrics.copy()
    undefined = (frame["condition"] == "soft") & (frame["split"] == "ood") & frame["floor"].notna()
    frame.loc[undefined, ["value", "ci_low", "ci_high", "undefined"]] = [math.nan, math.nan, math.nan, 3]
    changed = replace(publication, metrics=frame)
    (row,) = [row for row in result_rows(changed, LAW) if row.adapter.split == "ood" and "W1" in row.texts[0]]
    assert row.texts[3] == "— (3 families undefined)"
    splits = {result.dataset_split for result in evaluation_results(changed) if "wasserstein" in result.metric_type}
    assert splits == {"unseen"}


def test_commits_seeds_versions_and_licence(publication):
    text = model_card(publication).text
    assert f"| Commit of training | {COMMIT} |" in text
    assert f"| Commit of the evaluations | {COMMIT}, {'d' * 40} with local changes |" in text
    assert "| Seeds: training, sampling, all else | 0, 0, 0 |" in text
    assert "torch 2.13.0, peft 0.21.2 |" in text and "2605.11845" in text
    assert "**apache-2.0**, according to the model card of owner/base" in text
    assert "191 s on a GPU" in text


def test_a_local_base_checkpoint_is_no_name_of_the_hub(publication):
    local = with_base(publication, checkpoint="models/embedded", revision=None, quantisation="Q4_1")
    card = model_card(local)
    assert card.data.base_model is None and "base_model" not in card.data.to_dict()
    assert "local directory, `models/embedded`" in card.text and "(Q4_1); all figures are" in card.text
    assert "base = 'models/embedded'  # your copy" in card.text and "revision=" not in card.text
    there = model_card(replace(publication, repository="owner/name")).text
    assert f"revision='{COMMIT}'" in there and "adapter = 'owner/name'\n" in there


@pytest.mark.parametrize("method", ["soft", "hard", "anchored", "mixed", "merged", "soft_quarter", "outside"])
def test_each_method_says_what_it_was_trained_on(publication, method):
    merge = publication.params.methods[method].merge or {method: 1.0}
    made = replace(
        publication,
        method=method,
        training={name: RECORD for name in merge},
        metrics=publication.metrics.replace({"condition": {"soft": method}}),
    )
    found = dict(training_rows(made))
    targets = {target for name in merge for target in publication.params.methods[name].targets}
    for target in ("soft", "hard"):
        assert any(title.startswith(f"{target.capitalize()} target") for title in found) == (target in targets)
    assert sum(title.startswith("Optimiser steps") for title in found) == len(merge)
    assert found["Training prompts"].isdigit() or "," in found["Training prompts"]
    anchored = any(publication.params.methods[name].anchors is not None for name in merge)
    assert ("Anchors" in found) == anchored == (method in ("anchored", "mixed"))
    assert ("Merged from" in found) == (method in ("merged", "soft_quarter"))
    text = model_card(made).text
    assert ("beside replies of the base checkpoint" in text) == anchored


def test_a_method_is_not_merged_from_what_has_no_weight(params):
    merged = replace(params.methods["merged"], merge={"soft": 1.0, "hard": 0.0})
    assert trained_methods(replace(params, methods={**params.methods, "merged": merged}), "merged") == ["soft"]
    assert trained_methods(params, "hard") == ["hard"]


class FakeTokenizer:
    """A chat template of which the test sees what it is asked for."""

    def apply_chat_template(self, messages, *, tokenize, add_generation_prompt, **arguments):
        assert add_generation_prompt and not tokenize
        clock = arguments.pop("strftime_now", None)
        return f"{messages[0]['content']} {arguments} {clock('%d %b %Y') if clock else ''}"


def rendered(publication, content="one number"):
    import datetime

    names = {
        "tokenizer": FakeTokenizer(),
        "messages": [{"role": "user", "content": content}],
        "datetime": datetime,
    }
    return eval(request_code(publication), names)


def test_the_snippet_asks_as_the_stages_do(publication):
    assert rendered(with_chat(publication, template_arguments={"enable_thinking": False}, answer_prefix="<a>")) == (
        "one number {'enable_thinking': False} <a>"
    )
    dated = with_chat(publication, template_arguments={"current_date": "2025-08-05", "builtin": "no"})
    assert rendered(dated) == f"one number {{'builtin': 'no'}} {date(2025, 8, 5):%d %b %Y}"
    assert "import datetime\n" in model_card(dated).text
    plain = with_chat(replace(publication, has_template=False), answer_prefix="\n")
    assert rendered(plain) == "one number\n" and "add_special_tokens=True" in model_card(plain).text
    # Whatever the checkpoint's own sampling defaults are.
    assert "    temperature=1.0,\n    top_p=1.0,\n    top_k=0,\n" in model_card(plain).text


def test_merged_weights_are_said_to_be_there(publication):
    assert "`merged/`" not in model_card(publication).text
    text = model_card(replace(publication, merged_distance=1.5e-7, repository="owner/name")).text
    assert 'snapshot_download("owner/name", allow_patterns="merged/*")' in text and "1.5e-07 (rounding)" in text


def test_laws_of_ones_own_are_named_asked_for_and_reported(publication, params):
    metrics = [
        metric_row("laws", "embedded", condition, "held_out_template", "law_total_variation", value, n=3, floor=0.04)
        for condition, value in (("base", 0.6), ("soft", 0.06))
    ]
    prompts = replace(params.prompts, families=[])
    own = replace(params, axes=["laws"], prompts=prompts, laws={"drinks": "data/laws/drinks.yaml"})
    text = str(
        model_card(
            replace(
                publication,
                params=own,
                metrics=metric_frame(metrics),
                own_requests={"drinks": "Name a random drink at 20 degrees."},
                num_requests=12,
            )
        )
    )
    assert "12 requests of laws from files: drinks." in text and "Name a random drink at 20 degrees." in text
    assert re.search(r"0\.600.*0\.060.*0\.040", text) and "families of distributions" not in text
