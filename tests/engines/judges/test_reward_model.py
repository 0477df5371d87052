"""Rewards: padded equals alone, one BOS token, cutting, and the stand-in against a plain loop."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.config.evaluation import RewardConfig
from pipeline.engines.judges.reward_model import LikelihoodReward, open_sequence_reward, reward_identity
from pipeline.engines.loading import chat
from pipeline.errors import ModelError
from tests.stand_ins.evaluators import GEMMA_TEMPLATE, WORDS, save_reward_model


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save_reward_model(tmp_path_factory.mktemp("evaluators") / "gemma2")


def config_of(checkpoint, /, **changes) -> RewardConfig:
    values = {
        "kind": "skywork",
        "checkpoint": str(checkpoint),
        "revision": None,
        "dtype": "float32",
        "max_length": 40,
        "tokens_per_pass": 120,
    }
    return RewardConfig(**(values | changes))


def opened(config):
    return open_sequence_reward(config, reward_identity(config), device="cpu")


def random_pairs(count):
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 30, size=count)
    return [(f"says {i % 3}", " ".join(rng.choice(WORDS.split(), size=size))) for i, size in enumerate(sizes)]


def test_batched_rewards_equal_those_of_the_conversation_alone(checkpoint):
    reward, pairs = opened(config_of(checkpoint, max_length=60)), random_pairs(30)
    sizes = [len(indices) for indices, _ in reward.batches(pairs)]
    assert max(sizes) > 3 and len(sizes) > 3
    alone = []
    for request, response in pairs:
        messages = [{"role": "user", "content": request}, {"role": "assistant", "content": response}]
        # The benchmark's own call.
        inputs = reward.tokenizer.apply_chat_template([messages], tokenize=True, return_tensors="pt", return_dict=True)
        with torch.inference_mode():
            alone.append(reward.model(**inputs).logits[0, 0].item())
    np.testing.assert_allclose(reward.scores(pairs), alone, atol=1e-5)
    assert np.ptp(alone) > 0.1 and reward.num_cut == 0


def test_attention_logits_are_capped(tmp_path):
    """Gemma 2's soft cap, which transformers' default attention leaves out, shows where logits are large."""
    directory = save_reward_model(tmp_path / "gemma2")
    weights = load_file(directory / "model.safetensors")
    large = {name: value * (80 if "q_proj" in name or "k_proj" in name else 1) for name, value in weights.items()}
    save_file(large, directory / "model.safetensors", {"format": "pt"})
    reward, pairs = opened(config_of(directory, max_length=60)), random_pairs(8)
    assert reward.model.config._attn_implementation == "eager"
    capped = reward.scores(pairs)
    for layer in reward.model.model.layers:
        layer.self_attn.attn_logit_softcapping = None
    uncapped = reward.scores(pairs)
    reward.model.set_attn_implementation("sdpa")
    np.testing.assert_allclose(reward.scores(pairs), uncapped, atol=1e-3)
    assert np.abs(capped - uncapped).max() > 0.03


def test_exactly_one_bos_token(checkpoint, tmp_path):
    reward = opened(config_of(checkpoint))
    bos = reward.tokenizer.bos_token_id
    assert reward.encode(("the cat", "dog")).count(bos) == 1
    # A response that spells the token is the model's doing, and no reason to stop.
    assert reward.encode(("the cat", "<bos> dog")).count(bos) == 2
    for template in ("{{ bos_token }}" + GEMMA_TEMPLATE, GEMMA_TEMPLATE.removeprefix("{{ bos_token }}")):
        wrong = opened(config_of(save_reward_model(tmp_path / str(len(template)), template)))
        with pytest.raises(ModelError, match="does not start a conversation with one BOS token"):
            wrong.encode(("the cat", "dog"))


def test_long_conversations_are_cut_at_the_end_and_counted(checkpoint):
    reward = opened(config_of(checkpoint, max_length=8))
    long = "one two three four five six seven"
    scores = reward.scores([("cat", long), ("cat", long + " no no")])
    assert scores[0] == pytest.approx(scores[1], abs=1e-6) and reward.num_cut == 2


def test_errors(checkpoint, tmp_path):
    with pytest.raises(ModelError, match="reward.checkpoint must be given"):
        reward_identity(config_of(checkpoint, checkpoint=None))
    moved = shutil.copytree(checkpoint, tmp_path / "moved")
    (moved / "chat_template.jinja").unlink()
    with pytest.raises(ModelError, match="has no chat template"):
        opened(config_of(moved))


@pytest.fixture
def likelihood(model, tokenizer, model_config):
    def encode(text):
        return chat.encode_request(tokenizer, text, model_config.chat.template_arguments)

    terminator = chat.answer_terminator(tokenizer, model_config.terminator)
    return LikelihoodReward(model, tokenizer, encode, terminator, max_length=200, tokens_per_pass=280)


def test_likelihood_is_the_mean_log_probability_of_response_and_terminator(likelihood):
    pairs = [
        ("Name a city.", "Oslo"),
        ("Name a city.", ""),
        ("Name a long river.", "the Amazon, or the Nile"),
        ("Name a city.", "x" * 40),
    ]
    expected = []
    for request, response in pairs:
        ids = likelihood.encode_request(request)
        answer = [*likelihood.tokenizer(response, add_special_tokens=False)["input_ids"], likelihood.terminator]
        logs = []
        for token in answer:
            with torch.inference_mode():
                logits = likelihood.model(input_ids=torch.tensor([ids])).logits[0, -1].double()
            logs.append((logits[token] - logits.exp().sum().log()).item())
            ids = [*ids, token]
        expected.append(sum(logs) / len(logs))
    np.testing.assert_allclose(likelihood.scores(pairs), expected, atol=1e-5)
    assert len(list(likelihood.batches(pairs))) > 1 and likelihood.num_cut == 0


def test_likelihood_cuts_at_the_end_and_needs_room_for_a_response(likelihood):
    request = likelihood.encode_request("Name a city.")
    likelihood.max_length = len(request) + 3
    cut = likelihood.scores([("Name a city.", "abcde"), ("Name a city.", "abcdefgh")])
    assert cut[0] == pytest.approx(cut[1], abs=1e-6) and likelihood.num_cut == 2
    likelihood.max_length = len(request)
    with pytest.raises(ModelError, match="leaves no room for a response"):
        likelihood.scores([("Name a city.", "a")])
