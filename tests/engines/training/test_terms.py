"""Several terms in a step: weights, the base checkpoint as reference, budgets, and what a resumed run goes on with."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.core.training.anchors import anchor_example
from pipeline.core.training.examples import hard_example
from pipeline.core.training.objectives import forward_anchor_loss, hard_target_loss, soft_target_loss
from pipeline.engines.training.distributed import single_process
from pipeline.engines.training.fit import Term
from pipeline.engines.training.on_policy import OnPolicyReplies
from tests.engines.training.test_fit import SETTINGS, Killed, adapter, examples, run

REPLIES = [([30, 31], [32, 33, 34]), ([35], [36, 37]), ([38, 39, 40], [41])]
STEPS = 6


def anchors(step):
    return [anchor_example(*REPLIES[(step + place) % len(REPLIES)], 32) for place in range(2)]


def soft(weight=1.0):
    return Term("soft", examples, soft_target_loss, weight)


def held(weight=2.0, **more):
    return Term("anchors", anchors, forward_anchor_loss, weight, compares=True, **more)


trained = partial(run, steps=STEPS)
# Runs that nothing kills.
UNBROKEN = replace(SETTINGS, checkpoint_every_steps=1000)


def divergence(model_config, weights):
    """Of the adapted model from the base checkpoint on the replies, and how far targets are from learned."""
    model = adapter(model_config)
    from peft import set_peft_model_state_dict

    set_peft_model_state_dict(model, weights)
    _, log = trained(model_config, Path("/nonexistent/state"), [held(1.0), soft()], steps=1, model=model)
    return log[0]["loss/anchors"], log[0]["loss/soft"]


def test_anchors_keep_the_model_near_its_base_while_it_learns(model_config, tmp_path):
    quick = {"steps": 40, "settings": replace(UNBROKEN, learning_rate=1e-2)}
    alone, _ = trained(model_config, tmp_path / "alone", [soft()], **quick)
    both, log = trained(model_config, tmp_path / "both", [soft(), held(1.0)], **quick)
    moved, learned = divergence(model_config, alone)
    kept, also_learned = divergence(model_config, both)
    assert kept < moved / 3 and also_learned < log[0]["loss/soft"] / 1.5 and learned < log[0]["loss/soft"] / 1.5
    # The first step's model is its base.
    assert log[0]["loss/anchors"] == pytest.approx(0, abs=1e-5)
    assert log[5]["loss"] == pytest.approx(log[5]["loss/soft"] + log[5]["loss/anchors"], rel=1e-5)


def test_a_weight_multiplies_the_gradient_of_its_term(model_config, tmp_path):
    _, once = trained(model_config, tmp_path / "a", [soft()], steps=1)
    _, half = trained(model_config, tmp_path / "b", [soft(0.5)], steps=1)
    assert half[0]["loss"] == pytest.approx(once[0]["loss"] / 2) and "loss/soft" not in once[0]
    assert half[0]["grad_norm"] == pytest.approx(once[0]["grad_norm"] / 2, rel=1e-5)
    hard = Term("hard", lambda step: [hard_example([20], [[10, 2]])], hard_target_loss, 0.5)
    _, mixed = trained(model_config, tmp_path / "c", [soft(0.5), hard], steps=1)
    assert mixed[0]["loss/soft"] == pytest.approx(once[0]["loss"], rel=1e-5)
    assert mixed[0]["loss"] == pytest.approx((mixed[0]["loss/soft"] + mixed[0]["loss/hard"]) / 2)


def on_policy(model):
    class Tokens:
        """Token ids are the text."""

        def decode(self, ids, skip_special_tokens):
            return " ".join(map(str, ids))

        def __call__(self, texts, add_special_tokens):
            return {"input_ids": [[int(part) for part in text.split()] for text in texts]}

    replies = OnPolicyReplies(
        model,
        Tokens(),
        [prompt for prompt, _ in REPLIES],
        ["a", "a", "b"],
        {2},
        2,
        sequences_per_step=2,
        steps=4,
        max_new_tokens=3,
        names=(5, "tiny"),
        group=single_process(),
    )

    def make(step):
        return [anchor_example(REPLIES[place][0], ids, 32) for place, ids in replies.of_step(step)]

    return [soft(), Term("anchors", make, forward_anchor_loss, 2.0, compares=True, memory=replies)]


TERMS = {"budget": [soft(), held(kl_budget=0.05)], "replies of the trained model": on_policy}


@pytest.fixture(scope="module", params=TERMS)
def whole(request, model_config, tmp_path_factory):
    """Terms, and what a run with them that is not killed ends with."""
    terms = TERMS[request.param]
    return terms, *trained(model_config, tmp_path_factory.mktemp("whole") / "state", terms)


@pytest.mark.parametrize("killed_after", [1, 3, 4, 5])
def test_a_killed_run_goes_on_with_the_same_weights_and_replies(model_config, tmp_path, whole, killed_after):
    terms, expected, whole_log = whole

    def kill(record):
        if record["step"] == killed_after:
            raise Killed

    with pytest.raises(Killed):
        trained(model_config, tmp_path / "state", terms, on_step=kill)
    resumed, log = trained(model_config, tmp_path / "state", terms)
    assert all(torch.equal(value, resumed[name]) for name, value in expected.items())
    drop = {"seconds"}
    assert [{k: v for k, v in entry.items() if k not in drop} for entry in log] == [
        {k: v for k, v in entry.items() if k not in drop} for entry in whole_log
    ]


def test_the_trained_models_replies_change_with_it(model_config, tmp_path):
    seen = []

    def terms(model):
        own = on_policy(model)
        memory = own[1].memory
        written = memory._written
        memory._written = lambda step: seen.append(written(step)) or seen[-1]
        return own

    trained(model_config, tmp_path / "a", terms)
    assert len(seen) == 2 and all(len(pairs) == 8 for pairs in seen)
    # Every kind of instruction has its turn, and a reply ends with the terminator or at the limit.
    assert {place for place, _ in seen[0]} == {0, 1, 2}
    assert all(ids[-1] == 2 or len(ids) == 3 for pairs in seen for _, ids in pairs)


def test_a_budget_is_kept(model_config, tmp_path):
    _, free = trained(model_config, tmp_path / "free", [soft(), held(1e-3)], steps=60, settings=UNBROKEN)
    terms = [soft(), held(1e-3, kl_budget=0.3)]
    _, log = trained(model_config, tmp_path / "kept", terms, steps=120, settings=UNBROKEN)
    divergences = [[entry["loss/anchors"] for entry in entries[-30:]] for entries in (free, log)]
    assert np.mean(divergences[0]) > 0.6 and 0.1 < np.mean(divergences[1]) < 0.4
    assert log[-1]["weight/anchors"] > 5 * log[0]["weight/anchors"]
