"""Judges of texts, loaded from disk: input layout, cutting, batches against one text at a time, and what is refused."""

import hashlib

import numpy as np
import pytest
import torch
from huggingface_hub import HfApi
from huggingface_hub.errors import OfflineModeIsEnabled
from safetensors.torch import load_file, save_file

from pipeline.config.evaluation import ClassifierConfig, RewardConfig
from pipeline.engines.judges.text_judges import (
    LikelihoodReward,
    classifier_identity,
    load_evaluator,
    load_evaluator_tokenizer,
    open_classifier,
    open_sequence_reward,
    pinned,
    reward_identity,
)
from pipeline.engines.loading import chat
from pipeline.errors import ModelError
from tests.stand_ins.evaluators import GEMMA_TEMPLATE, WORDS, save_classifier, save_reward_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def scores(scorer, pairs):
    """float64[n], and the sizes of the batches."""
    found, sizes = np.full(len(pairs), np.nan), []
    for indices, values in scorer.batches(pairs):
        found[indices] = values
        sizes.append(len(indices))
    return found, sizes


def test_a_directory_is_pinned_by_its_files_and_a_repository_by_its_commit(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "README.md").write_text("says nothing about the weights")
    assert pinned(str(tmp_path), "ignored") == {"files": {"config.json": hashlib.sha256(b"{}").hexdigest()}}
    with pytest.raises(ModelError, match="models/nowhere does not exist"):
        pinned("models/nowhere", None)
    # A full commit needs no network.
    assert pinned("owner/name", COMMIT) == {"repository": "owner/name", "revision": COMMIT}

    def offline(self, name, revision):
        raise OfflineModeIsEnabled("no network\nmore")

    monkeypatch.setattr(HfApi, "model_info", offline)
    with pytest.raises(ModelError, match="cannot reach the hub for owner/name: no network$"):
        pinned("owner/name", None)


@pytest.fixture(scope="module")
def deberta(tmp_path_factory):
    return save_classifier(tmp_path_factory.mktemp("evaluators") / "deberta")


def test_tokenizers_that_do_not_fit(deberta, tmp_path):
    model = load_evaluator(str(deberta), None, "float32", 2)
    tokenizer = load_evaluator_tokenizer(str(deberta), None, model)
    tokenizer.add_tokens(["zebra"])
    tokenizer.save_pretrained(tmp_path / "larger")
    with pytest.raises(ModelError, match=r"the tokenizer of .* has \d+ tokens, the model \d+"):
        load_evaluator_tokenizer(str(tmp_path / "larger"), None, model)
    with pytest.raises(ModelError, match="cannot load the tokenizer"):
        load_evaluator_tokenizer(str(tmp_path / "nowhere"), None, model)


def classifier_config(checkpoint, /, **changes):
    source = {"checkpoint": str(checkpoint), "revision": None, "tokenizer": str(checkpoint), "tokenizer_revision": None}
    limits = {"dtype": "float32", "threshold": 0.102, "max_tokens": 7, "tokens_per_pass": 60}
    return ClassifierConfig(**{"kind": "deberta", **source, **limits, **changes})


def classifier(config):
    return open_classifier(config, classifier_identity(config))


def test_layout_of_a_pair_and_similarities_in_batches(deberta):
    opened = classifier(classifier_config(deberta))
    start, separator = opened.tokenizer.cls_token_id, opened.tokenizer.sep_token_id
    ids = dict(zip(WORDS.split(), opened.tokenizer(WORDS, add_special_tokens=False)["input_ids"], strict=True))
    long = "one two three four five six seven says yes"
    cut = [ids[word] for word in long.split()[:7]]
    assert opened.encode(("the cat", long)) == [start, ids["the"], ids["cat"], separator, *cut, separator]
    assert opened.encode(("", "dog")) == [start, separator, ids["dog"], separator]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS.split(), size=rng.integers(0, 14))) for _ in range(80)]
    pairs, single = list(zip(texts[::2], texts[1::2], strict=True)), []
    batched, sizes = scores(opened, pairs)
    assert sum(sizes) == 40 and max(sizes) > 3 and len(sizes) > 5
    for pair in pairs:
        with torch.inference_mode():
            logits = opened.model(torch.tensor([opened.encode(pair)])).logits[0]
        single.append((logits[1].exp() / logits.exp().sum()).item())
    np.testing.assert_allclose(batched, single, atol=2e-6)
    # The order within a pair matters to the classifier.
    assert np.abs(scores(opened, [(b, a) for a, b in pairs])[0] - batched).max() > 1e-3


def test_classifiers_that_are_refused(deberta, tmp_path):
    with pytest.raises(ModelError, match="classifier.checkpoint must be given with kind deberta"):
        classifier_identity(classifier_config(deberta, checkpoint=None))
    weights = load_file(deberta / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("classifier")}
    headless = save_classifier(tmp_path / "headless")
    save_file(kept, headless / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"no weights for classifier.bias \(2 missing\)"):
        classifier(classifier_config(headless))


@pytest.fixture(scope="module")
def gemma2(tmp_path_factory):
    return save_reward_model(tmp_path_factory.mktemp("evaluators") / "gemma2")


def reward(checkpoint, max_length=40):
    config = RewardConfig("skywork", str(checkpoint), None, "float32", max_length, tokens_per_pass=120)
    return open_sequence_reward(config, reward_identity(config))


def conversations(count):
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 30, size=count)
    return [(f"says {i % 3}", " ".join(rng.choice(WORDS.split(), size=size))) for i, size in enumerate(sizes)]


def test_batched_rewards_equal_those_of_the_conversation_alone(gemma2):
    opened, pairs, alone = reward(gemma2, 60), conversations(30), []
    for request, response in pairs:
        messages = [{"role": "user", "content": request}, {"role": "assistant", "content": response}]
        # The benchmark's own call.
        inputs = opened.tokenizer.apply_chat_template([messages], tokenize=True, return_tensors="pt", return_dict=True)
        with torch.inference_mode():
            alone.append(opened.model(**inputs).logits[0, 0].item())
    batched, sizes = scores(opened, pairs)
    assert max(sizes) > 3 and len(sizes) > 3
    np.testing.assert_allclose(batched, alone, atol=1e-5)
    # Cut at the end.
    long = "one two three four five six seven"
    cut, _ = scores(reward(gemma2, 8), [("cat", long), ("cat", long + " no no")])
    assert cut[0] == pytest.approx(cut[1], abs=1e-6)


def test_attention_logits_are_capped(tmp_path):
    """Gemma 2's soft cap, which transformers' default attention leaves out, shows where logits are large."""
    directory = save_reward_model(tmp_path / "gemma2")
    weights = load_file(directory / "model.safetensors")
    large = {name: value * (80 if "q_proj" in name or "k_proj" in name else 1) for name, value in weights.items()}
    save_file(large, directory / "model.safetensors", {"format": "pt"})
    opened, pairs = reward(directory, 60), conversations(8)
    capped, _ = scores(opened, pairs)
    for layer in opened.model.model.layers:
        layer.self_attn.attn_logit_softcapping = None
    assert np.abs(capped - scores(opened, pairs)[0]).max() > 0.03


def test_exactly_one_bos_token(gemma2, tmp_path):
    opened = reward(gemma2)
    # A response that spells the token is the model's doing, and no reason to stop.
    assert opened.encode(("the cat", "<bos> dog")).count(opened.tokenizer.bos_token_id) == 2
    for template in ("{{ bos_token }}" + GEMMA_TEMPLATE, GEMMA_TEMPLATE.removeprefix("{{ bos_token }}")):
        wrong = reward(save_reward_model(tmp_path / str(len(template)), template))
        with pytest.raises(ModelError, match="does not start a conversation with one BOS token"):
            wrong.encode(("the cat", "dog"))


@pytest.fixture
def likelihood(model, tokenizer, model_config):
    def encode(text):
        return chat.encode_messages(
            tokenizer, [{"role": "user", "content": text}], model_config.chat.template_arguments
        )

    terminator = chat.answer_terminator(tokenizer, model_config.terminator)
    return LikelihoodReward(model, tokenizer, encode, terminator, max_length=200, tokens_per_pass=280)


def test_likelihood_is_the_mean_log_probability_of_response_and_terminator(likelihood):
    pairs = [("Name a city.", "Oslo"), ("Name a city.", ""), ("Name a long river.", "the Amazon"), ("Hm?", "x" * 40)]
    expected = []
    for request, response in pairs:
        ids, logs = likelihood.encode_request(request), []
        for token in [*likelihood.tokenizer(response, add_special_tokens=False)["input_ids"], likelihood.terminator]:
            with torch.inference_mode():
                logits = likelihood.model(input_ids=torch.tensor([ids])).logits[0, -1].double()
            logs.append((logits[token] - logits.exp().sum().log()).item())
            ids = [*ids, token]
        expected.append(sum(logs) / len(logs))
    np.testing.assert_allclose(scores(likelihood, pairs)[0], expected, atol=1e-5)
    likelihood.max_length = len(likelihood.encode_request(pairs[0][0]))
    with pytest.raises(ModelError, match="leaves no room for a response"):
        scores(likelihood, pairs[:1])
