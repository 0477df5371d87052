"""Judges of texts, loaded from disk: input layout, cutting, batches against one text at a time, and what is refused."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.axes.inv_entropy.evaluate import cosine_similarities
from pipeline.config.evaluation import ClassifierConfig, JudgeConfig, RewardConfig, SimilarityConfig
from pipeline.engines.judges.text_judges import (
    LikelihoodReward,
    classifier_identity,
    embedding_identity,
    judge_identity,
    open_classifier,
    open_embedder,
    open_judge,
    open_sequence_reward,
    reward_identity,
)
from pipeline.engines.loading import chat
from pipeline.errors import ModelError
from tests.stand_ins.evaluators import GEMMA_TEMPLATE, WORDS, save_classifier, save_judge, save_reward_model


def random_pairs(count, most=14):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS.split(), size=rng.integers(0, most))) for _ in range(2 * count)]
    return list(zip(texts[::2], texts[1::2], strict=True))


@pytest.fixture(scope="module")
def deberta(tmp_path_factory):
    return save_classifier(tmp_path_factory.mktemp("evaluators") / "deberta")


def classifier_config(checkpoint, /, **changes):
    source = {"checkpoint": str(checkpoint), "revision": None, "tokenizer": str(checkpoint), "tokenizer_revision": None}
    limits = {"dtype": "float32", "threshold": 0.102, "max_tokens": 7, "tokens_per_pass": 60}
    return ClassifierConfig(**{"kind": "deberta", **source, **limits, **changes})


def classifier(config):
    return open_classifier(config, classifier_identity(config), device="cpu")


def test_layout_of_a_pair(deberta):
    opened = classifier(classifier_config(deberta))
    start, separator = opened.tokenizer.cls_token_id, opened.tokenizer.sep_token_id
    ids = dict(zip(WORDS.split(), opened.tokenizer(WORDS, add_special_tokens=False)["input_ids"], strict=True))
    long = "one two three four five six seven says yes"
    cut = [ids[word] for word in long.split()[:7]]
    rows = opened.encode([("the cat", long), ("", "dog")])
    assert [row["input_ids"] for row in rows] == [
        [start, ids["the"], ids["cat"], separator, *cut, separator],
        [start, separator, ids["dog"], separator],
    ]
    inputs = opened._inputs(rows)
    assert inputs["token_type_ids"].tolist() == [[0] * 4 + [1] * 8, [0, 0, 1, 1] + [0] * 8]
    assert inputs["attention_mask"].sum(dim=1).tolist() == [12, 4]


def test_similarities_in_batches_are_those_of_one_pair_at_a_time(deberta):
    opened, pairs = classifier(classifier_config(deberta)), random_pairs(40)
    sizes = [len(indices) for indices, _ in opened.batches(pairs)]
    assert sum(sizes) == 40 and max(sizes) > 3 and len(sizes) > 5
    batched, single = opened.scores(pairs), []
    for row in opened.encode(pairs):
        with torch.inference_mode():
            logits = opened.model(**{name: torch.tensor([values]) for name, values in row.items()}).logits[0]
        single.append((logits[1].exp() / logits.exp().sum()).item())
    np.testing.assert_allclose(batched, single, atol=2e-6)
    assert batched.dtype == np.float64 and np.ptp(batched) > 0.1
    # The order within a pair matters to the classifier.
    assert np.abs(opened.scores([(b, a) for a, b in pairs]) - batched).max() > 1e-3


def test_identity_is_the_content(deberta, tmp_path):
    identity = classifier_identity(classifier_config(deberta))
    moved = shutil.copytree(deberta, tmp_path / "moved")
    assert classifier_identity(classifier_config(moved, tokens_per_pass=9)) == identity
    assert classifier_identity(classifier_config(deberta, max_tokens=8)) != identity
    weights = moved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert classifier_identity(classifier_config(moved)) != identity


def test_classifiers_that_are_refused(deberta, tmp_path):
    with pytest.raises(ModelError, match="checkpoint must be given with kind deberta"):
        classifier_identity(classifier_config(deberta, checkpoint=None))
    with pytest.raises(ModelError, match="has 3 classes, not 2"):
        classifier(classifier_config(save_classifier(tmp_path / "three", num_labels=3)))
    headless = shutil.copytree(deberta, tmp_path / "headless")
    weights = load_file(headless / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("classifier")}
    save_file(kept, headless / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"no weights for classifier.bias \(2 missing\)"):
        classifier(classifier_config(headless, tokenizer=str(deberta)))
    (headless / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="cannot load the sequence classifier"):
        classifier(classifier_config(headless, tokenizer=str(deberta)))


@pytest.fixture(scope="module")
def judge_config(tmp_path_factory):
    checkpoint = save_judge(tmp_path_factory.mktemp("judge") / "nli")
    return JudgeConfig(str(checkpoint), None, "float32", strict=False, max_tokens=16, tokens_per_pass=90)


def judge(config):
    return open_judge(config, judge_identity(config), device="cpu")


def test_verdicts_in_batches_are_those_of_single_pairs(judge_config):
    opened, pairs = judge(judge_config), random_pairs(60, 7)
    assert len(list(opened.batches(pairs))) > 5
    expected, (start, separator) = [], (opened.tokenizer.cls_token_id, opened.tokenizer.sep_token_id)
    for pair in pairs:
        first, second = opened.tokenizer(list(pair), add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            logits = opened.model(torch.tensor([[start, *first, separator, *second, separator]])).logits[0]
        label = opened.model.config.id2label[int(logits.argmax())]
        expected.append({"CONTRADICTION": -1, "NEUTRAL": 0, "ENTAILMENT": 1}[label])
    assert opened.scores(pairs).tolist() == expected and len(set(expected)) > 1
    assert opened.scores([]).tolist() == []


def test_labels_are_found_by_name_in_any_order(judge_config, tmp_path):
    moved = shutil.copytree(judge_config.checkpoint, tmp_path / "moved")
    content = json.loads((moved / "config.json").read_text())
    content |= {"id2label": {0: "entailment", 1: "not_entailment", 2: "Contradiction"}, "label2id": {}}
    (moved / "config.json").write_text(json.dumps(content))
    pairs, other = random_pairs(60, 7), dataclasses.replace(judge_config, checkpoint=str(moved))
    swapped = {-1: 1, 0: 0, 1: -1}
    assert judge(other).scores(pairs).tolist() == [swapped[verdict] for verdict in judge(judge_config).scores(pairs)]


def test_a_model_without_entailment_is_no_judge(judge_config, deberta):
    with pytest.raises(ModelError, match="no label 'entailment', only label_0, label_1; it must be a model of natural"):
        judge(dataclasses.replace(judge_config, checkpoint=str(deberta)))


@pytest.fixture(scope="module")
def gemma2(tmp_path_factory):
    return save_reward_model(tmp_path_factory.mktemp("evaluators") / "gemma2")


def reward(checkpoint, max_length=40):
    config = RewardConfig("skywork", str(checkpoint), None, "float32", max_length, tokens_per_pass=120)
    return open_sequence_reward(config, reward_identity(config), device="cpu")


def conversations(count):
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 30, size=count)
    return [(f"says {i % 3}", " ".join(rng.choice(WORDS.split(), size=size))) for i, size in enumerate(sizes)]


def test_batched_rewards_equal_those_of_the_conversation_alone(gemma2):
    opened, pairs = reward(gemma2, 60), conversations(30)
    sizes = [len(indices) for indices, _ in opened.batches(pairs)]
    assert max(sizes) > 3 and len(sizes) > 3
    alone = []
    for request, response in pairs:
        messages = [{"role": "user", "content": request}, {"role": "assistant", "content": response}]
        # The benchmark's own call.
        inputs = opened.tokenizer.apply_chat_template([messages], tokenize=True, return_tensors="pt", return_dict=True)
        with torch.inference_mode():
            alone.append(opened.model(**inputs).logits[0, 0].item())
    np.testing.assert_allclose(opened.scores(pairs), alone, atol=1e-5)
    assert np.ptp(alone) > 0.1


def test_attention_logits_are_capped(tmp_path):
    """Gemma 2's soft cap, which transformers' default attention leaves out, shows where logits are large."""
    directory = save_reward_model(tmp_path / "gemma2")
    weights = load_file(directory / "model.safetensors")
    large = {name: value * (80 if "q_proj" in name or "k_proj" in name else 1) for name, value in weights.items()}
    save_file(large, directory / "model.safetensors", {"format": "pt"})
    opened, pairs = reward(directory, 60), conversations(8)
    assert opened.model.config._attn_implementation == "eager"
    capped = opened.scores(pairs)
    for layer in opened.model.model.layers:
        layer.self_attn.attn_logit_softcapping = None
    uncapped = opened.scores(pairs)
    opened.model.set_attn_implementation("sdpa")
    np.testing.assert_allclose(opened.scores(pairs), uncapped, atol=1e-3)
    assert np.abs(capped - uncapped).max() > 0.03


def test_exactly_one_bos_token(gemma2, tmp_path):
    opened = reward(gemma2)
    bos = opened.tokenizer.bos_token_id
    assert opened.encode(("the cat", "dog")).count(bos) == 1
    # A response that spells the token is the model's doing, and no reason to stop.
    assert opened.encode(("the cat", "<bos> dog")).count(bos) == 2
    for template in ("{{ bos_token }}" + GEMMA_TEMPLATE, GEMMA_TEMPLATE.removeprefix("{{ bos_token }}")):
        wrong = reward(save_reward_model(tmp_path / str(len(template)), template))
        with pytest.raises(ModelError, match="does not start a conversation with one BOS token"):
            wrong.encode(("the cat", "dog"))


def test_long_conversations_are_cut_at_the_end(gemma2):
    long = "one two three four five six seven"
    scores = reward(gemma2, 8).scores([("cat", long), ("cat", long + " no no")])
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


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
        ids, logs = likelihood.encode_request(request), []
        for token in [*likelihood.tokenizer(response, add_special_tokens=False)["input_ids"], likelihood.terminator]:
            with torch.inference_mode():
                logits = likelihood.model(input_ids=torch.tensor([ids])).logits[0, -1].double()
            logs.append((logits[token] - logits.exp().sum().log()).item())
            ids = [*ids, token]
        expected.append(sum(logs) / len(logs))
    np.testing.assert_allclose(likelihood.scores(pairs), expected, atol=1e-5)
    assert len(list(likelihood.batches(pairs))) > 1


def test_likelihood_cuts_at_the_end_and_needs_room_for_a_response(likelihood):
    request = likelihood.encode_request("Name a city.")
    likelihood.max_length = len(request) + 3
    cut = likelihood.scores([("Name a city.", "abcde"), ("Name a city.", "abcdefgh")])
    assert cut[0] == pytest.approx(cut[1], abs=1e-6)
    likelihood.max_length = len(request)
    with pytest.raises(ModelError, match="leaves no room for a response"):
        likelihood.scores([("Name a city.", "a")])


def test_embeddings_are_the_mean_of_the_texts_own_hidden_states(deberta):
    texts = ["a city", "the cat says a dog of the blue river and two cats of the city", "", "one two"]
    config = SimilarityConfig("embedding", str(deberta), None, dtype="float32", max_tokens=32, tokens_per_pass=64)
    embed = open_embedder(config, embedding_identity(config), "cpu")
    vectors = embed(texts)
    for text, vector in zip(texts, vectors, strict=True):
        if not text:
            assert not vector.any()
            continue
        with torch.inference_mode():
            hidden = embed.model(**embed.tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        assert vector == pytest.approx(hidden.mean(dim=0).double().numpy(), abs=1e-5)
    alone = open_embedder(dataclasses.replace(config, tokens_per_pass=1), embedding_identity(config), "cpu")
    assert alone(texts[::-1])[::-1] == pytest.approx(vectors, abs=1e-5)
    alike = cosine_similarities(embed([*texts, texts[1]]))
    assert alike[1, 4] == pytest.approx(1) and ((alike >= 0) & (alike <= 1)).all()
