"""Publishing from a DAG whose records are real and whose numbers are made up: what is written, and what is refused."""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from pipeline.artifacts.prompts import write_prompts
from pipeline.artifacts.storage import write_json
from pipeline.compose import compose_params, render
from pipeline.config.params import load_params, validate
from pipeline.core.prompts.structured import build_split
from pipeline.dag.execution import StageRun
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.engines.loading.model import add_lora, load_model, next_log_probabilities
from pipeline.engines.training.fit import save_adapter
from pipeline.errors import ArtifactError, ConfigError
from pipeline.publish.__main__ import main
from pipeline.publish.directory import write_merged
from pipeline.publish.freshness import nodes_behind
from pipeline.record.provenance import sha256_path
from pipeline.report.evaluations import METRIC_COLUMNS, read_evaluations
from pipeline.runs.spent import record_paths
from tests.conftest import ROOT, TINY_OVERRIDES
from tests.report.conftest import metric_row

AXES = ("structured", "paloma")
MODEL, METHOD = "embedded", "soft"


def make_adapter(config, directory):
    """An adapter that shows, as training would write it."""
    torch.manual_seed(0)
    adapted = add_lora(load_model(config, device="cpu"), config, rank=2, alpha=4, dropout=0)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    directory.mkdir(parents=True)
    save_adapter(adapted, directory)


def make_evaluation(root, axis, condition, value):
    names = (axis, MODEL, condition)
    found = {
        "structured": [
            metric_row(*names, split, "wasserstein_1_normalised", value, n=118, floor=0.05)
            for split in ("ood", "unseen")
        ],
        "paloma": [metric_row(*names, "all", "bits_per_byte", 2.5, n=6)],
    }[axis]
    kept = [{key: row[key] for key in row if key != "provenance"} for row in found]
    kept = [{key: None if value != value else value for key, value in row.items()} for row in kept]
    write_json(root / axis / MODEL / condition / "metrics.json", {"metrics": kept, "failures": {}})


def finish(params, names):
    """Make what is not there yet of the runs' outputs, and write the record of each as it would; none of hard."""
    for node in nodes_behind(params, names, ("base", METHOD)):
        records = {name: path for name, path in record_paths(node, params).items() if name in ("", "base", METHOD)}
        outputs = [Path(path) for path in node.outputs if Path(path) not in records.values()]
        for path in outputs:
            if not path.exists():
                file = path if path.suffix else path / "content"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(node.name)
        run = StageRun(node.stage, node.row, params)
        for condition, record in records.items():
            made = {str(path / condition): sha256_path(path / condition) for path in outputs}
            run.record.write(record, made, steps=6, final_loss=0.5)


@pytest.fixture(scope="module")
def project(tiny_model, tmp_path_factory):
    """params.yaml of a finished DAG with one adapter, evaluated on two axes, and its report's metrics."""
    root = tmp_path_factory.mktemp("project")
    overrides = [
        *TINY_OVERRIDES,
        f"models.embedded.checkpoint={tiny_model}",
        f"artifacts={root / 'artifacts'}",
        f"reports={root / 'reports'}",
        f"axes=[{','.join(AXES)}]",
    ]
    path = root / "params.yaml"
    path.write_text(render(compose_params(ROOT / "conf", overrides), overrides))
    params, artifacts = load_params(path), root / "artifacts"
    (artifacts / "prompts").mkdir(parents=True)
    for split in ("ood", "train"):
        prompts = build_split(split, selection="selected", families=["gaussian", "bernoulli", "maxwell"])
        write_prompts(artifacts / "prompts" / f"{split}.parquet", prompts)
    report = {"checkpoint": str(tiny_model), "revision": None, "files_sha256": {}, "quantisation": None}
    report |= {"terminator": "<|im_end|>", "terminator_id": 2, "example_request": "Generate", "example_tokens": []}
    write_json(artifacts / "models" / "embedded.json", report)
    make_adapter(params.models[MODEL], artifacts / "adapters" / MODEL / METHOD)
    for axis in AXES:
        for condition, value in (("base", 0.6), (METHOD, 0.2)):
            make_evaluation(artifacts / "evals", axis, condition, value)
    finish(params, ["train-soft@embedded", *(f"eval-{axis}@{MODEL}" for axis in AXES)])
    (root / "reports").mkdir()
    metrics = read_evaluations(artifacts / "evals").metrics
    metrics[list(METRIC_COLUMNS)].to_csv(root / "reports" / "metrics.csv", index=False)
    return path


def publish(project, output, **options):
    given = {"repository": None, "push": False, "merged": False, "private": False, "licence": "mit"}
    main(project, **{"model": MODEL, "method": METHOD, "output": output, **given, **options})
    return output


@pytest.fixture(scope="module")
def published(project, tmp_path_factory):
    return publish(project, tmp_path_factory.mktemp("out") / "adapter", merged=True)


def test_what_is_in_the_directory(project, published, tiny_model):
    names = {str(path.relative_to(published)) for path in published.rglob("*") if path.is_file()}
    own = {name for name in names if not name.startswith("merged/")}
    assert own == {"README.md", "adapter_config.json", "adapter_model.safetensors", "metrics.csv", "provenance.json"}
    assert names - own >= {"merged/config.json", "merged/model.safetensors", "merged/tokenizer.json"}
    source = project.parent / "artifacts" / "adapters" / MODEL / METHOD
    assert sha256_path(published / "adapter_model.safetensors") == sha256_path(source / "adapter_model.safetensors")
    config = json.loads((published / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(tiny_model) and config["revision"] is None and config["r"] == 2
    records = json.loads((published / "provenance.json").read_text())
    assert records["adapter"]["stage"] == "train-soft" and set(records["training"]) == {METHOD}
    assert set(records["evaluations"]) == {f"{axis} {name}" for axis in AXES for name in ("base", METHOD)}
    lines = (published / "metrics.csv").read_text().splitlines()
    assert len(lines) == 7 and set(lines) <= set((project.parent / "reports" / "metrics.csv").read_text().splitlines())
    sampling = json.loads((published / "merged" / "generation_config.json").read_text())
    assert (sampling["temperature"], sampling["top_k"], sampling["top_p"], sampling["do_sample"]) == (1.0, 0, 1.0, True)
    assert not list(published.parent.glob(".*partial"))


# Runs behind the card's own code, in a process that has transformers and PEFT and nothing of ours.
STRANGER = """
import importlib.util, json
assert importlib.util.find_spec("pipeline") is None
def law(model):
    with torch.inference_mode():
        return model.eval()(inputs["input_ids"]).logits[0, -1].double().log_softmax(-1).tolist()
merged = AutoModelForCausalLM.from_pretrained("merged", dtype=torch.float32)
found = {"ids": inputs["input_ids"][0].tolist(), "adapter": law(model), "merged": law(merged)}
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
    torch.testing.assert_close(torch.tensor(found["merged"]).double(), expected, rtol=0, atol=1e-3)
    assert (torch.tensor(found["base"]).double() - expected).abs().max() > 0.1


def test_merged_weights_are_base_and_update(project, published, tiny_model):
    base, merged = (load_file(place / "model.safetensors") for place in (tiny_model, published / "merged"))
    update = load_file(published / "adapter_model.safetensors")
    name = "model.layers.0.self_attn.q_proj"
    parts = [update[f"base_model.model.{name}.lora_{part}.weight"] for part in "BA"]
    expected = base[f"{name}.weight"].float() + 2 * parts[0] @ parts[1]
    torch.testing.assert_close(merged[f"{name}.weight"].float(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name, architecture", [("gpt_oss_20b", "gpt_oss"), ("gemma3_4b", "gemma3")])
def test_merged_weights_of_other_architectures_are_read_again(stand_ins, tmp_path, name, architecture):
    """Experts that are stored in MXFP4, and a language model inside of another."""
    params = validate(compose_params(ROOT / "conf", ["experiment=paper"]))
    config = replace(params.models[name], checkpoint=str(stand_ins[architecture]), revision=None)
    write_json(tmp_path / "report.json", {"revision": None})
    make_adapter(config, tmp_path / "adapter")
    distance = write_merged(config, tmp_path / "report.json", tmp_path / "adapter", "a request", tmp_path / "merged")
    # bfloat16: as many digits as the base checkpoint's own weights have.
    assert 0 < distance < 0.05


def test_published_again_and_where_something_else_is(project, tmp_path, capsys):
    output = publish(project, tmp_path / "adapter")
    assert "nothing was sent; --push sends" in capsys.readouterr().out
    (output / "left_over").write_text("old")
    publish(project, output)
    assert not (output / "left_over").exists() and not (output / "merged").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="--output: .*other exists and holds no published adapter"):
        publish(project, tmp_path / "other")
    assert (tmp_path / "other" / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "options, message",
    [
        ({"model": "gpt"}, "--model: .* has no 'gpt'; there are embedded"),
        ({"method": "firm"}, "--method: .* has no 'firm'; there are soft, hard"),
        ({"licence": None}, "--licence: the licence of .* is not known"),
    ],
)
def test_unknown_names_and_licences(project, tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        publish(project, tmp_path / "adapter", **options)
    assert not list(tmp_path.iterdir())


def test_an_adapter_that_was_not_trained(project, tmp_path):
    with pytest.raises(ArtifactError, match=r"adapters/embedded/hard/provenance\.json does not exist"):
        publish(project, tmp_path / "adapter", method="hard")


@contextmanager
def edited(path, text):
    """The file with another content, or None for none, until the context ends."""
    before = path.read_bytes()
    path.unlink() if text is None else path.write_text(text)
    try:
        yield
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize(
    "keys, value, message",
    [
        (("train", "soft", "epochs"), 9, r"embedded/soft/provenance\.json is of train\.soft\.epochs 2, .* has 9"),
        (
            ("evaluate", "bootstrap_replicates"),
            200,
            "is of evaluate.bootstrap_replicates 100, .* has 200; `make",
        ),
        (("seed",), 7, "is of seed 0, .* has 7"),
        (("axes",), ["structured", "mcq"], "does not exist"),
        (("axes",), ["paloma"], "axes: a model card needs structured"),
        (("conditions",), ["base", "soft"], "is of conditions"),
        (("conditions",), ["hard"], "conditions: a model card compares soft with base; add base and soft"),
    ],
)
def test_parameters_that_the_artifacts_are_not_of(project, tmp_path, keys, value, message):
    values = yaml.safe_load(project.read_text())
    section = values
    for key in keys[:-1]:
        section = section[key]
    section[keys[-1]] = value
    other = tmp_path / "params.yaml"
    other.write_text(yaml.safe_dump(values))
    with pytest.raises((ArtifactError, ConfigError), match=message):
        publish(other, tmp_path / "adapter")


@pytest.mark.parametrize(
    "path, text, message",
    [
        ("adapters/embedded/soft/adapter_model.safetensors", "other", "adapters/embedded/soft is not what its run"),
        ("adapters/embedded/soft/adapter_config.json", None, "adapters/embedded/soft is not what its run has written"),
        ("evals/paloma/embedded/soft/metrics.json", "{}", "evals/paloma/embedded/soft is not what its run has written"),
        ("generations/structured/embedded/soft.parquet", "other", r"soft\.parquet is not what its run has written"),
        ("generations/structured/embedded/soft.parquet", None, r"soft\.parquet does not exist"),
        ("evals/structured/embedded/base/provenance.json", None, r"base/provenance\.json does not exist"),
        ("../reports/metrics.csv", None, r"metrics\.csv does not exist; `make repro` or `make tables` writes it"),
        ("../reports/metrics.csv", "axis\n", r"metrics\.csv is not of the evaluations in .*: 6 of their rows"),
    ],
)
def test_artifacts_that_are_missing_or_not_of_their_records(project, tmp_path, path, text, message):
    with edited(project.parent / "artifacts" / path, text), pytest.raises(ArtifactError, match=message):
        publish(project, tmp_path / "adapter")
    assert not list(tmp_path.iterdir())


def test_evaluations_of_another_adapter(project, tmp_path):
    """The adapter was trained again, with a record that says so; what was sampled from the one before is left."""
    adapter = project.parent / "artifacts" / "adapters" / MODEL / METHOD
    record = json.loads((adapter / "provenance.json").read_text())
    with edited(adapter / "adapter_model.safetensors", "trained anew"):
        record["outputs_sha256"] = {str(adapter): sha256_path(adapter)}
        with (
            edited(adapter / "provenance.json", json.dumps(record)),
            pytest.raises(ArtifactError, match=r"its input .*adapter_model\.safetensors is another than"),
        ):
            publish(project, tmp_path / "adapter")


def test_results_of_other_code(project, tmp_path):
    path = project.parent / "artifacts" / "adapters" / MODEL / METHOD / "provenance.json"
    record = json.loads(path.read_text())
    record |= {"code": "0123", "git": {"commit": "a" * 40, "modified": False}}
    with (
        edited(path, json.dumps(record)),
        pytest.raises(ArtifactError, match=r"is of other code of train-soft than .* of its commit aaaa"),
    ):
        publish(project, tmp_path / "adapter")
