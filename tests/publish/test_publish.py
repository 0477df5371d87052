"""Publishing: what is written and refused, every number with its size and interval, and code that strangers can run."""

import datetime
import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
import torch
from huggingface_hub import metadata_load

from pipeline.artifacts.prompts import write_prompts
from pipeline.artifacts.storage import write_json
from pipeline.compose import compose_params, render
from pipeline.config.params import load_params
from pipeline.core.prompts.structured import build_split
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.engines.loading.model import next_log_probabilities
from pipeline.errors import ArtifactError, ConfigError
from pipeline.publish.__main__ import collect, main
from pipeline.publish.card import model_card, request_code
from pipeline.record.provenance import sha256_path
from tests.conftest import ROOT, TINY_OVERRIDES
from tests.engines.engine_cases import save_adapter

MODEL, METHOD = "embedded", "soft"
COMMIT = "c" * 40
RECORD = {
    "git": {"commit": COMMIT, "modified": True},
    "wall_time_seconds": 191.2,
    "device": "a GPU",
    "started": "2026-01-01T00:00:00+00:00",
    "python": "3.12.1",
    "packages": {"torch": "2.13.0", "peft": "0.21.2"},
}
LAW = ("structured", "ood", "", "wasserstein_1_normalised")
METRICS = [
    # Axis, split, family, metric; base's value, n, interval and floor; the adapter's.
    (*LAW, (0.195, 5980, 0.185, 0.205, 0.023), (0.088, 5990, 0.078, 0.098, 0.024)),
    ("structured", "ood", "gamma", "wasserstein_1_normalised", (0.5, 250, 0.4, 0.6, 0.02), (0.4, 250, 0.3, 0.5, 0.02)),
    ("structured", "ood", "", "valid_rate", (0.9, 6000, 0.89, 0.91, None), (0.975, 6000, 0.97, 0.98, None)),
    ("paloma", "all", "", "bits_per_byte", (2.5, 262, 2.25, 2.75, None), (None, 261, None, None, None)),
]


@pytest.fixture(scope="module")
def project(tiny_model, tmp_path_factory):
    """params.yaml of a finished DAG with one adapter and its report's metrics."""
    root = tmp_path_factory.mktemp("project")
    overrides = [
        *TINY_OVERRIDES,
        f"models.embedded.checkpoint={tiny_model}",
        f"artifacts={root / 'artifacts'}",
        f"reports={root / 'reports'}",
        "axes=[structured,paloma]",
    ]
    path, artifacts = root / "params.yaml", root / "artifacts"
    path.write_text(render(compose_params(ROOT / "conf", overrides), overrides))
    (artifacts / "prompts").mkdir(parents=True)
    for split in ("ood", "train"):
        prompts = build_split(split, selection="selected", families=["gaussian", "bernoulli", "maxwell"])
        write_prompts(artifacts / "prompts" / f"{split}.parquet", prompts)
    report = {"checkpoint": str(tiny_model), "revision": None, "files_sha256": {}, "quantisation": None}
    report |= {"terminator": "<|im_end|>", "terminator_id": 2, "example_request": "Generate", "example_tokens": []}
    write_json(artifacts / "models" / "embedded.json", report)
    adapter = save_adapter(load_params(path).models[MODEL], artifacts / "adapters" / MODEL / METHOD)
    write_json(adapter / "provenance.json", RECORD)
    rows = [
        {"axis": axis, "model": MODEL, "condition": condition, "split": split, "family": family, "metric": metric}
        | dict(zip(("value", "n", "ci_low", "ci_high", "floor"), figures, strict=True))
        for axis, split, family, metric, *both in METRICS
        for condition, figures in zip(("base", METHOD), both, strict=True)
    ]
    (root / "reports").mkdir()
    pd.DataFrame(rows).to_csv(root / "reports" / "metrics.csv", index=False)
    return path


def publish(project, output, **options):
    given = {"repository": None, "licence": "mit"}
    main(project, **{"model": MODEL, "method": METHOD, "output": output, **given, **options})
    return output


@pytest.fixture(scope="module")
def published(project, tmp_path_factory):
    return publish(project, tmp_path_factory.mktemp("out") / "adapter")


@pytest.fixture
def publication(project):
    return collect(load_params(project), MODEL, METHOD, "owner/name", "mit")


def test_what_is_in_the_directory(project, published, tiny_model):
    names = {path.name for path in published.iterdir()}
    assert names == {"README.md", "adapter_config.json", "adapter_model.safetensors", "metrics.csv", "provenance.json"}
    source = project.parent / "artifacts" / "adapters" / MODEL / METHOD
    assert sha256_path(published / "adapter_model.safetensors") == sha256_path(source / "adapter_model.safetensors")
    config = json.loads((published / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(tiny_model) and config["revision"] is None and config["r"] == 2
    assert json.loads((published / "provenance.json").read_text()) == RECORD
    assert len(pd.read_csv(published / "metrics.csv")) == 6
    text = (published / "README.md").read_text()
    assert f"{COMMIT} with local changes" in text and "191 s on a GPU" in text and "Gaussian" in text


def test_the_hub_reads_the_metadata(published, publication):
    metadata = metadata_load(published / "README.md")
    assert metadata["license"] == "mit" and metadata["library_name"] == "peft" and "base_model" not in metadata
    hub = replace(publication, report={**publication.report, "checkpoint": "owner/base", "revision": COMMIT})
    card = model_card(hub)
    assert (card.data.base_model, card.data.base_model_relation) == ("owner/base", "adapter")
    assert f"revision='{COMMIT}'" in card.text and "adapter = 'owner/name'\n" in card.text


def test_numbers_stand_with_interval_size_and_floor(published):
    text = (published / "README.md").read_text()
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if " / " in line]
    (w1,) = (cells for cells in lines if "W1" in cells[0])
    values = ["0.1950 [0.1850, 0.2050]", "0.0880 [0.0780, 0.0980]"]
    assert w1[1:] == ["lower", *values, "0.0240", "5,980 / 5,990 valid answers"]
    (bits,) = (cells for cells in lines if "ytes" in cells[0] or "its per byte" in cells[0])
    assert bits[2].startswith("2.5") and bits[3] == "–" and bits[5].startswith("262 / 261")


# Runs behind the card's own code, in a process that has transformers and PEFT and nothing of ours.
STRANGER = """
import importlib.util, json
assert importlib.util.find_spec("pipeline") is None
def law(model):
    with torch.inference_mode():
        return model.eval()(inputs["input_ids"]).logits[0, -1].double().log_softmax(-1).tolist()
found = {"ids": inputs["input_ids"][0].tolist(), "adapter": law(model)}
with model.disable_adapter():
    found["base"] = law(model)
print("FOUND" + json.dumps(found | {"answers": list(answers.shape)}))
"""


def test_strangers_get_the_same_log_probabilities(project, published):
    (code,) = re.findall(r"```python\n(.*?)```", (published / "README.md").read_text(), re.DOTALL)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, "-c", code + STRANGER],
        cwd=published,
        env={**environment, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.split("FOUND")[1])
    artifacts, config = project.parent / "artifacts", load_params(project).models[MODEL]
    (prompt, *_) = build_split("ood", selection="selected", families=["bernoulli", "maxwell"])
    ours = open_model(config, artifacts / "models" / "embedded.json", artifacts / "adapters" / MODEL / METHOD, "probe")
    ids = ours.encode(prompt.text)
    assert found["ids"] == ids and found["answers"][0] == 10 and found["answers"][1] > len(ids)
    expected = next_log_probabilities(ours.model, [ids])[0]
    torch.testing.assert_close(torch.tensor(found["adapter"]).double(), expected, rtol=0, atol=1e-5)
    assert (torch.tensor(found["base"]).double() - expected).abs().max() > 0.1


class FakeTokenizer:
    """A chat template of which the test sees what it is asked for."""

    def apply_chat_template(self, messages, *, tokenize, add_generation_prompt, **arguments):
        assert add_generation_prompt and not tokenize
        clock = arguments.pop("strftime_now", None)
        return f"{messages[0]['content']} {arguments} {clock('%d %b %Y') if clock else ''}"


def test_the_snippet_asks_as_the_stages_do(publication):
    def rendered(has_template=True, **chat):
        model = publication.params.models[MODEL]
        models = {MODEL: replace(model, chat=replace(model.chat, **chat))}
        changed = replace(publication, params=replace(publication.params, models=models), has_template=has_template)
        names = {"tokenizer": FakeTokenizer(), "messages": [{"content": "one number"}], "datetime": datetime}
        return eval(request_code(changed), names), model_card(changed).text

    request, _ = rendered(template_arguments={"enable_thinking": False}, answer_prefix="<a>")
    assert request == "one number {'enable_thinking': False} <a>"
    request, text = rendered(template_arguments={"current_date": "2025-08-05", "builtin": "no"})
    assert request == f"one number {{'builtin': 'no'}} {datetime.date(2025, 8, 5):%d %b %Y}"
    assert "import datetime\n" in text
    request, text = rendered(has_template=False, answer_prefix="\n")
    assert request == "one number\n" and "add_special_tokens=True" in text
    # Whatever the checkpoint's own sampling defaults are.
    assert "    temperature=1.0,\n    top_p=1.0,\n    top_k=0,\n" in text


def test_only_what_was_published_is_replaced(project, tmp_path):
    output = publish(project, tmp_path / "adapter")
    (output / "left_over").write_text("old")
    publish(project, output)
    assert not (output / "left_over").exists()
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="--output: .* exists and holds no published adapter"):
        publish(project, tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "options, message",
    [
        ({"model": "gpt"}, "--model: there is no 'gpt'; there are embedded"),
        ({"method": "sot"}, "--method: there is no 'sot'; did you mean soft. there are soft, hard"),
        ({"method": "hard"}, r"adapters/embedded/hard/provenance\.json does not exist"),
        ({"licence": None}, "--licence: the licence of .* is not known"),
    ],
)
def test_what_is_refused(project, tmp_path, options, message):
    with pytest.raises((ConfigError, ArtifactError), match=message):
        publish(project, tmp_path / "adapter", **options)
    assert not list(tmp_path.iterdir())
