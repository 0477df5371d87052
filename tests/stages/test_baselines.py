"""Baselines as conditions: String Seed of Thought, batches, verbalised and constrained sampling."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from pipeline.artifacts.output_spaces import OutputSpaceStore
from pipeline.artifacts.prompts import write_text_prompts
from pipeline.compose import compose_params
from pipeline.config.params import load_params
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.open_ended import open_prompts
from pipeline.engines.loading.conditioned_model import answer_protocol, open_model
from pipeline.errors import ConfigError
from pipeline.stages import generate, score_open
from tests.conftest import ROOT
from tests.stages.conftest import Dag

HARMONY_TOKENS = ["<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>"]
HARMONY_TEMPLATE = (
    "<|start|>system<|message|>Reasoning: {{ reasoning_effort }}<|end|>"
    "{% for message in messages %}<|start|>{{ message['role'] }}<|message|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)


@pytest.fixture
def all_baselines(dag, tmp_path):
    """The session's DAG with every baseline switched on, writing elsewhere."""
    values = yaml.safe_load(dag.params.read_text())
    for name in ("constrained", "batch", "verbalized"):
        values["generate"][name] |= {"enabled": True, "num_samples": 6, "batch_size": 3, "max_new_tokens": 24}
    values["generate"]["batch"] |= {"num_samples": 3, "answers_per_request": 4}
    params = tmp_path / "params.yaml"
    params.write_text(yaml.safe_dump(values))
    other = Dag(params, tmp_path / "artifacts")
    other.root.mkdir()
    for name in ("models", "tries", "output_spaces", "adapters"):
        (other.root / name).symlink_to(dag.root / name)
    shutil.copytree(dag.root / "prompts", other.root / "prompts")
    few = [prompt for prompt in open_prompts() if prompt.category in ("city", "mammal", "weekday")]
    write_text_prompts(other.axis_prompts("open")[0], few)
    return other


def evaluated(dag, condition):
    directory = dag.evals("structured", condition)
    rows = json.loads((directory / "metrics.json").read_text())["metrics"]
    return rows, pd.read_parquet(directory / "per_prompt.parquet")


def test_constrained_answers_are_all_valid_and_of_the_evaluation_space(all_baselines):
    dag = all_baselines
    dag.generate("constrained", constraint=dag.root / "tries" / "embedded" / "eval")
    spaces = OutputSpaceStore(dag.root / "output_spaces" / "eval.parquet")
    table = pd.read_parquet(dag.generations("constrained"))
    assert len(table) == 12 * 6
    for prompt_id, texts in table.groupby("prompt_id")["text"]:
        assert set(texts) <= set(spaces[prompt_id].values)
    dag.evaluate_structured_samples("constrained")
    rows, per_prompt = evaluated(dag, "constrained")
    assert {row["value"] for row in rows if row["metric"] == "valid_rate"} == {1.0}
    # The floor is that of its own number of answers, 6 per prompt: the table of floors has 5, 6 and 12.
    floors = pd.read_parquet(dag.floors()).set_index(["prompt_id", "num_samples"])["replicates"]
    assert set(floors.index.get_level_values("num_samples")) == {5, 6, 12}
    for row in per_prompt.itertuples():
        assert row.floor == np.mean(floors[row.prompt_id, 6])
    # The error of a perfect sampler falls like 1 / sqrt(N).
    means = floors.map(np.mean).groupby("num_samples").mean()
    assert 1.2 * means[12] < means[5] < 2.2 * means[12]


def test_constrained_needs_tries_and_room(all_baselines, tmp_path):
    dag = all_baselines
    with pytest.raises(ConfigError, match="--constraint"):
        dag.generate("constrained")
    with pytest.raises(ConfigError, match="--constraint"):
        dag.generate("base", constraint=dag.root / "tries" / "embedded" / "eval")
    values = yaml.safe_load(dag.params.read_text())
    values["generate"]["constrained"]["max_new_tokens"] = 2
    dag.params.write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match=r"generate\.constrained\.max_new_tokens: 2 is too short"):
        dag.generate("constrained", constraint=dag.root / "tries" / "embedded" / "eval")


@pytest.mark.parametrize(("condition", "answers"), [("batch", 12), ("verbalized", 6)])
def test_packed_baselines_have_their_own_numbers_of_answers(all_baselines, condition, answers):
    dag = all_baselines
    dag.evaluate_baseline(condition)
    _, per_prompt = evaluated(dag, condition)
    assert set(per_prompt["num_samples"]) == {answers}
    assert set(per_prompt["num_generations"]) == {3 if condition == "batch" else 6}
    invalid = per_prompt[[f"invalid_{reason.value}" for reason in Invalid]].to_numpy().sum(axis=1)
    np.testing.assert_array_equal(invalid + per_prompt["num_valid"], answers)
    dag.evaluate_open(condition, scored=False)
    opened = pd.read_parquet(dag.evals("open", condition) / "per_prompt.parquet")
    assert set(opened["num_samples"]) == {answers} and opened["top_p_support_size"].isna().all()


def test_every_baseline_is_one_switch():
    for name in ("constrained", "batch", "verbalized"):
        composed = compose_params(ROOT / "conf", [f"generate.{name}.enabled=true"])
        expected = {"embedded-ssot", f"embedded-{name}"}
        assert set(composed["dag"]["structured_baselines"]) == expected
        assert set(composed["dag"]["open_baselines"]) == expected - {"embedded-constrained"}
    off = compose_params(ROOT / "conf", ["generate.ssot.enabled=false"])
    assert off["dag"]["structured_baselines"] == {} == off["dag"]["open_baselines"]


def test_first_step_laws_of_a_baseline_are_refused(dag, tmp_path):
    with pytest.raises(ConfigError, match="ssot"):
        score_open.main(**dag.condition("ssot"), prompts=dag.axis_prompts("open"), output=tmp_path / "s.parquet")


@pytest.fixture
def harmony(dag, tiny_model, tmp_path):
    """The tiny model behind GPT-OSS's kind of template, and parameters that say so."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.add_special_tokens({"additional_special_tokens": HARMONY_TOKENS, "eos_token": "<|return|>"})
    tokenizer.chat_template = HARMONY_TEMPLATE
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    model.resize_token_embeddings(len(tokenizer))
    directory = tmp_path / "harmony"
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    values = yaml.safe_load(dag.params.read_text())
    values["models"]["embedded"] |= {
        "checkpoint": str(directory),
        "terminator": "<|return|>",
        "chat": {
            "template_arguments": {"reasoning_effort": "low"},
            "answer_prefix": "<|channel|>final<|message|>",
            "reasoning": {
                "template_arguments": {"reasoning_effort": "low"},
                "instruction_role": "developer",
                "answer_channel": "final",
            },
        },
    }
    params = tmp_path / "harmony.yaml"
    params.write_text(yaml.safe_dump(values))
    return params


def test_channel_protocol(dag, harmony, tmp_path):
    config = load_params(harmony)
    opened = open_model(config.model("embedded"), dag.model["model_report"], "ssot", tmp_path, "hello")
    protocol = answer_protocol(config, "embedded", "ssot")
    messages = protocol.messages("structured", "THE TASK", "developer")
    rendered = opened.tokenizer.decode(opened.encode_messages(messages, protocol.reasons))
    # The model writes its own channels: the prompt ends where its turn starts.
    assert "<|start|>developer<|message|>" in rendered and rendered.endswith("<|start|>assistant")
    assert opened.tokenizer.decode(opened.encode("THE TASK")).endswith("assistant<|channel|>final<|message|>")
    reply = "<|channel|>analysis<|message|>seed 9xK<|end|><|start|>assistant<|channel|>final<|message|>4.2"
    ids = opened.tokenizer(reply, add_special_tokens=False)["input_ids"]
    assert protocol.answers(opened.tokenizer.decode(ids, skip_special_tokens=False), 0) == ["4.2"]
    # Without its special tokens the reply cannot be told from its analysis.
    assert protocol.answers(opened.tokenizer.decode(ids, skip_special_tokens=True), 0) == [Invalid.NO_ANSWER]


def test_replies_keep_their_channels(dag, harmony, tmp_path, monkeypatch):
    from pipeline.engines.sampling.transformers_engine import TransformersEngine

    kept, original = [], TransformersEngine.sample

    def recorded(engine, requests):
        kept.extend(request.skip_special_tokens for request in requests)
        return original(engine, requests)

    monkeypatch.setattr(TransformersEngine, "sample", recorded)
    for condition in ("ssot", "base"):
        generate.main(
            harmony,
            "open",
            "embedded",
            dag.model["model_report"],
            condition,
            tmp_path,
            dag.axis_prompts("open"),
            tmp_path / f"{condition}.parquet",
            tmp_path / "partial",
        )
    assert kept == [False] * 102 + [True] * 102
