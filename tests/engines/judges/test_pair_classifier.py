"""The DeBERTa pair classifier, loaded from disk: input layout, cutting, padding and errors."""

import io
import json
import shutil

import numpy as np
import pytest
import torch

from pipeline.config.evaluation import ClassifierConfig
from pipeline.core.language.novelty import word_dice
from pipeline.engines.judges.pair_classifier import classifier_identity, open_classifier
from pipeline.errors import ModelError
from tests.stand_ins.evaluators import WORDS, save_classifier


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save_classifier(tmp_path_factory.mktemp("evaluators") / "deberta")


def config_of(checkpoint, /, **changes) -> ClassifierConfig:
    values = {
        "kind": "deberta",
        "checkpoint": str(checkpoint),
        "revision": None,
        "tokenizer": str(checkpoint),
        "tokenizer_revision": None,
        "dtype": "float32",
        "threshold": 0.102,
        "max_tokens": 7,
        "tokens_per_pass": 60,
    }
    return ClassifierConfig(**(values | changes))


def opened(config):
    return open_classifier(config, classifier_identity(config), device="cpu")


def random_pairs(count):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS.split(), size=rng.integers(0, 14))) for _ in range(2 * count)]
    return list(zip(texts[::2], texts[1::2], strict=True))


def test_layout_of_a_pair(checkpoint):
    classifier = opened(config_of(checkpoint))
    start, separator = classifier.tokenizer.cls_token_id, classifier.tokenizer.sep_token_id
    ids = dict(zip(WORDS.split(), classifier.tokenizer(WORDS, add_special_tokens=False)["input_ids"], strict=True))
    long = "one two three four five six seven says yes"
    cut = [ids[word] for word in long.split()[:7]]
    rows = classifier.encode([("the cat", long), ("", "dog")])
    assert [row["input_ids"] for row in rows] == [
        [start, ids["the"], ids["cat"], separator, *cut, separator],
        [start, separator, ids["dog"], separator],
    ]
    inputs = classifier._inputs(rows)
    assert inputs["token_type_ids"].tolist() == [[0] * 4 + [1] * 8, [0, 0, 1, 1] + [0] * 8]
    assert inputs["attention_mask"].sum(dim=1).tolist() == [12, 4]


def test_batches_equal_one_pair_at_a_time(checkpoint):
    classifier, pairs = opened(config_of(checkpoint)), random_pairs(40)
    sizes = [len(indices) for indices, _ in classifier.batches(pairs)]
    assert sum(sizes) == 40 and max(sizes) > 3 and len(sizes) > 5
    batched = classifier.scores(pairs)
    single = []
    for row in classifier.encode(pairs):
        with torch.inference_mode():
            logits = classifier.model(**{name: torch.tensor([values]) for name, values in row.items()}).logits[0]
        single.append((logits[1].exp() / logits.exp().sum()).item())
    np.testing.assert_allclose(batched, single, atol=2e-6)
    assert batched.dtype == np.float64 and np.ptp(batched) > 0.1
    # The order within a pair matters to the classifier.
    assert np.abs(classifier.scores([(b, a) for a, b in pairs]) - batched).max() > 1e-3


def test_identity_is_the_content(checkpoint, tmp_path):
    identity = classifier_identity(config_of(checkpoint))
    moved = shutil.copytree(checkpoint, tmp_path / "moved")
    assert classifier_identity(config_of(moved, tokens_per_pass=9)) == identity
    assert classifier_identity(config_of(checkpoint, max_tokens=8)) != identity
    weights = moved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert classifier_identity(config_of(moved)) != identity
    pinned = "0123456789abcdef0123456789abcdef01234567"
    hub = config_of("owner/name", tokenizer="owner/other", revision=pinned, tokenizer_revision=pinned)
    assert classifier_identity(hub)["checkpoint"] == {"repository": "owner/name", "revision": pinned}


def test_pytorch_weights_are_read_without_unpickling_objects(checkpoint, tmp_path):
    from safetensors.torch import load_file

    moved = shutil.copytree(checkpoint, tmp_path / "moved")
    torch.save(load_file(moved / "model.safetensors"), moved / "pytorch_model.bin")
    (moved / "model.safetensors").unlink()
    pairs = random_pairs(5)
    np.testing.assert_array_equal(opened(config_of(moved)).scores(pairs), opened(config_of(checkpoint)).scores(pairs))


def test_errors(checkpoint, tmp_path):
    with pytest.raises(ModelError, match="classifier.checkpoint must be given"):
        classifier_identity(config_of(checkpoint, checkpoint=None))
    with pytest.raises(ModelError, match=r"/nowhere does not exist"):
        classifier_identity(config_of(tmp_path / "nowhere"))
    with pytest.raises(ModelError, match="has 3 classes, not 2"):
        opened(config_of(save_classifier(tmp_path / "three", num_labels=3)))
    headless = shutil.copytree(checkpoint, tmp_path / "headless")
    from safetensors.torch import load_file, save_file

    weights = load_file(headless / "model.safetensors")
    save_file(
        {k: v for k, v in weights.items() if not k.startswith("classifier")},
        headless / "model.safetensors",
        metadata={"format": "pt"},
    )
    with pytest.raises(ModelError, match=r"no weights for classifier.bias \(2 missing\)"):
        opened(config_of(headless, tokenizer=str(checkpoint)))
    (headless / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="cannot load the sequence classifier"):
        opened(config_of(headless, tokenizer=str(checkpoint)))


def test_sentencepiece_model_alone_is_a_tokenizer(checkpoint, tmp_path):
    # microsoft/deberta-v3-large has spm.model, config.json and tokenizer_config.json, no tokenizer.json.
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([f"{WORDS} {number}" for number in range(60)]),
        model_writer=model,
        vocab_size=40,
        pad_id=0,
        pad_piece="[PAD]",
        bos_id=1,
        bos_piece="[CLS]",
        eos_id=2,
        eos_piece="[SEP]",
        unk_id=3,
        unk_piece="[UNK]",
        minloglevel=2,
    )
    (tmp_path / "spm.model").write_bytes(model.getvalue())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "deberta-v2"}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False, "vocab_type": "spm"}))
    classifier = opened(config_of(checkpoint, tokenizer=str(tmp_path)))
    row = classifier.encode([("the cat", "dog")])[0]["input_ids"]
    assert row[0] == 1 and row.count(2) == 2 and row[-1] == 2
    assert np.isfinite(classifier.scores(random_pairs(3))).all()


def test_lexical_classifier():
    config = config_of("", kind="lexical", checkpoint=None, tokenizer=None)
    classifier, pairs = opened(config), random_pairs(6)
    assert classifier.scores(pairs).tolist() == [word_dice(*pair) for pair in pairs]
    assert classifier.scores([]).shape == (0,)
