"""The judge of entailment on a tiny random model: labels by name, layout, batches, and what is no judge."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch

from pipeline.config.evaluation import JudgeConfig
from pipeline.engines.judges.entailment import judge_identity, open_judge
from pipeline.errors import ModelError
from tests.stand_ins.evaluators import WORDS, save_classifier, save_judge


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    checkpoint = save_judge(tmp_path_factory.mktemp("judge") / "nli")
    return JudgeConfig(str(checkpoint), None, "float32", strict=False, max_tokens=16, tokens_per_pass=90)


def opened(config):
    return open_judge(config, judge_identity(config), device="cpu")


def random_pairs(count):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS.split(), size=rng.integers(1, 7))) for _ in range(2 * count)]
    return list(zip(texts[::2], texts[1::2], strict=True))


def test_verdicts_in_batches_are_those_of_single_pairs(config):
    judge, pairs = opened(config), random_pairs(60)
    assert len(list(judge.batches(pairs))) > 5
    expected = []
    for first, second in pairs:
        ids = judge.tokenizer(first, add_special_tokens=False)["input_ids"]
        others = judge.tokenizer(second, add_special_tokens=False)["input_ids"]
        start, separator = judge.tokenizer.cls_token_id, judge.tokenizer.sep_token_id
        with torch.inference_mode():
            logits = judge.model(torch.tensor([[start, *ids, separator, *others, separator]])).logits[0]
        label = judge.model.config.id2label[int(logits.argmax())]
        expected.append({"CONTRADICTION": -1, "NEUTRAL": 0, "ENTAILMENT": 1}[label])
    assert judge.scores(pairs).tolist() == expected and len(set(expected)) > 1
    assert judge.scores([]).tolist() == []


def test_a_long_pair_keeps_its_ends(config):
    judge = opened(config)
    question = "the cat says yes to the dog of the river city and "
    long, short = ((f"{text}{question}red", f"{text}{question}blue") for text in (question, ""))
    kept = [judge.tokenizer(*pair, truncation=True, max_length=16)["input_ids"] for pair in (long, short)]
    judge.scores([long])
    cut = judge.tokenizer(*long, truncation=True, max_length=16)["input_ids"]
    assert len(cut) == 16 and cut != kept[0]
    words = judge.tokenizer.convert_ids_to_tokens(cut)
    assert words[words.index("[SEP]") - 1] == "red" and words[-2] == "blue"


def test_labels_are_found_by_name_in_any_order(config, tmp_path):
    moved = shutil.copytree(config.checkpoint, tmp_path / "moved")
    content = json.loads((moved / "config.json").read_text())
    content |= {"id2label": {0: "entailment", 1: "not_entailment", 2: "Contradiction"}, "label2id": {}}
    (moved / "config.json").write_text(json.dumps(content))
    pairs = random_pairs(60)
    other = dataclasses.replace(config, checkpoint=str(moved))
    swapped = {-1: 1, 0: 0, 1: -1}
    assert opened(other).scores(pairs).tolist() == [swapped[verdict] for verdict in opened(config).scores(pairs)]
    assert judge_identity(other) != judge_identity(config)


def test_a_model_without_entailment_is_no_judge(config, tmp_path):
    plain = dataclasses.replace(config, checkpoint=str(save_classifier(tmp_path / "plain")))
    with pytest.raises(ModelError, match="no label 'entailment', only label_0, label_1; it must be a model of natural"):
        opened(plain)
    with pytest.raises(ModelError, match="nowhere does not exist"):
        judge_identity(dataclasses.replace(config, checkpoint=str(tmp_path / "nowhere")))
