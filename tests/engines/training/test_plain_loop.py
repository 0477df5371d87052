"""Whole trainings recomputed by a plain loop: a forward pass per completion, sums by hand, AdamW written out."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from pipeline.core.training.examples import anchor_example, hard_example, soft_example
from pipeline.core.training.objectives import anchor_loss, hard_target_loss, soft_target_loss
from pipeline.engines.training import fit as fit_module
from pipeline.engines.training.fit import Term, fit
from tests.engines.training.worlds import BRANCHING, PROMPTS, SETTINGS, adapter

STEPS, TEMPERATURE = 5, 1.7
LOOP = replace(
    SETTINGS,
    learning_rate=0.02,
    weight_decay=0.3,
    warmup_ratio=0.4,
    max_grad_norm=1.0,
    temperature=TEMPERATURE,
    checkpoint_every_steps=1000,
)
REPLIES = (([30, 31], [32, 33, 34]), ([35], [36, 37]), ([38, 39, 40], [41]))


def soft_paths(step, place):
    return BRANCHING.sample_paths(np.random.default_rng([step, place]), 3)


def completions(step, place):
    """Three of different length and with beginnings in common, drawn anew in every step."""
    rng = np.random.default_rng([7, step, place])
    return [BRANCHING.sample_path(rng)[0].tolist() for _ in range(3)]


def each_prompt(make):
    return lambda step: [make(prompt, step, place) for place, prompt in enumerate(PROMPTS)]


def anchors(step):
    return [anchor_example(*REPLIES[(step + place) % 3], 32) for place in range(2)]


def term(name, weight):
    """A term of the loss, of which ``loss_by_hand`` has the same."""
    if name == "anchors":
        return Term(name, anchors, anchor_loss, weight, compares=True)
    make, objective = {
        "soft": (lambda p, s, i: soft_example(p, BRANCHING, np.random.default_rng([s, i]), 3), soft_target_loss),
        "hard": (lambda p, s, i: hard_example(p, completions(s, i)), hard_target_loss),
        "token": (lambda p, s, i: hard_example(p, completions(s, i), "token"), hard_target_loss),
    }[name]
    return Term(name, each_prompt(make), objective, weight)


METHODS = {
    "soft": {"soft": 1.0},
    "hard": {"hard": 1.0},
    "token": {"token": 1.0},
    "mixed": {"soft": 0.25, "hard": 0.75},
    "anchored": {"soft": 1.0, "anchors": 0.3},
}
VARIANTS = {
    "whole": {},
    "passes of a row": {"micro_batch_size": 1},
    "passes of few tokens": {"tokens_per_pass": 12, "max_length": 12},
    "chunks of logits": {},
    "sequences": {},
    "all logits": {},
}
CASES = [(method, "whole") for method in METHODS] + [
    (method, variant) for method in ("mixed", "anchored") for variant in list(VARIANTS)[1:]
]


def log_laws(model, prompt, completion, temperature=1.0):
    """float64[L, V]: the law before each token of a completion."""
    logits = model(input_ids=torch.tensor([[*prompt, *completion[:-1]]])).logits[0, len(prompt) - 1 :]
    return (logits.double() / temperature).log_softmax(-1)


def soft_loss(model, prompt, path):
    """Eq. 3 of one path: mean over its prefixes of KL from the trie's law of the next token."""
    tokens, targets = path
    laws = log_laws(model, prompt, tokens.tolist(), TEMPERATURE)
    return sum(
        (torch.tensor(q) * (torch.tensor(q).log() - law[ids.tolist()])).sum()
        for law, (ids, q) in zip(laws, targets, strict=True)
    ) / len(tokens)


def token_losses(model, prompt, completion):
    laws = log_laws(model, prompt, completion, TEMPERATURE)
    return torch.stack([-law[token] for law, token in zip(laws, completion, strict=True)])


def reply_loss(model, pairs):
    """KL(base || model), mean over the tokens of all replies."""
    values = []
    for prompt, reply in pairs:
        own = log_laws(model, prompt, reply)
        with torch.no_grad(), model.disable_adapter():
            base = log_laws(model, prompt, reply)
        values.append((base.exp() * (base - own)).sum(-1))
    return torch.cat(values).mean()


def loss_by_hand(model, name, step):
    places = range(len(PROMPTS))
    if name == "soft":
        losses = [soft_loss(model, PROMPTS[i], path) for i in places for path in soft_paths(step, i)]
        return torch.stack(losses).mean()
    if name == "anchors":
        return reply_loss(model, [REPLIES[(step + place) % 3] for place in range(2)])
    losses = [token_losses(model, PROMPTS[i], drawn) for i in places for drawn in completions(step, i)]
    return torch.cat(losses).mean() if name == "token" else torch.stack([each.mean() for each in losses]).mean()


def fresh_adapter(model_config):
    """With both factors away from zero, so that every weight has a gradient from the first step on."""
    model, generator = adapter(model_config, 0.0), torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(0, 0.05, generator=generator)
    return model


@pytest.fixture(scope="module")
def by_hand(model_config):
    """By method: the log's columns and the weights after STEPS steps."""

    @cache
    def trained(method):
        model, log = fresh_adapter(model_config), []
        parameters = [value for value in model.parameters() if value.requires_grad]
        first, second = ([torch.zeros_like(value) for value in parameters] for _ in range(2))
        weights = METHODS[method]
        warmup = math.ceil(LOOP.warmup_ratio * STEPS)
        for step in range(STEPS):
            losses = {name: loss_by_hand(model, name, step) for name in weights}
            total = sum(weights[name] * losses[name] for name in weights)
            gradients = torch.autograd.grad(total, parameters)
            norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))
            cosine = 0.5 * (1 + math.cos(math.pi * (step - warmup) / (STEPS - warmup)))
            rate = LOOP.learning_rate * (step / warmup if step < warmup else cosine)
            log.append({"loss": total.item(), "learning_rate": rate, "grad_norm": norm})
            if len(weights) > 1:
                log[-1] |= {f"loss/{name}": value.item() for name, value in losses.items()}
                log[-1] |= {f"weight/{name}": value for name, value in weights.items()}
            for value, gradient, mean, square in zip(parameters, gradients, first, second, strict=True):
                gradient = gradient * min(1.0, LOOP.max_grad_norm / norm)
                mean.mul_(0.9).add_(0.1 * gradient)
                square.mul_(0.999).add_(0.001 * gradient**2)
                step_size = (mean / (1 - 0.9 ** (step + 1))) / ((square / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8)
                value.data.sub_(rate * LOOP.weight_decay * value.data + rate * step_size)
        return log, parameters

    return trained


@pytest.mark.parametrize(("method", "variant"), CASES)
def test_a_training_is_the_plain_loop(model_config, tmp_path, monkeypatch, by_hand, method, variant):
    if variant == "chunks of logits":
        monkeypatch.setattr(fit_module, "LOGITS_PER_CHUNK", 300 * 4)
    if variant == "sequences":
        monkeypatch.setattr(fit_module, "supports_tree_attention", lambda model: False)
        monkeypatch.setattr(fit_module, "tree_attention_mask", None)
    if variant == "all logits":
        monkeypatch.setattr(
            fit_module, "position_logits", lambda model: fit_module.PositionLogits(model.get_base_model(), False)
        )
    model = fresh_adapter(model_config)
    trained = [value for value in model.parameters() if value.requires_grad]
    started = [value.detach().clone() for value in trained]
    log = fit(
        model,
        [term(name, weight) for name, weight in METHODS[method].items()],
        STEPS,
        replace(LOOP, **VARIANTS[variant]),
        seed=1,
        stream=("tiny", method),
        pad_id=0,
        checkpoint=tmp_path / "state",
    )
    expected_log, expected = by_hand(method)
    for entry, by_column in zip(log, expected_log, strict=True):
        assert {name: entry[name] for name in by_column} == pytest.approx(by_column, rel=1e-3, abs=1e-6)
    for value, wanted, start in zip(trained, expected, started, strict=True):
        moved = float((wanted.detach() - start).norm())
        assert moved > 0.01 and float((value - wanted).detach().norm()) < 5e-3 * moved
    # Clipped in some steps, and not in all.
    assert {entry["grad_norm"] > LOOP.max_grad_norm for entry in log} == {True, False}
