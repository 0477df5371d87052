"""Whole trainings recomputed by a plain loop: a forward pass per completion, sums by hand, AdamW written out."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from pipeline.core.random_streams import random_stream, stream_seed
from pipeline.core.training.examples import (
    anchor_example,
    exact_example,
    family_balanced_order,
    hard_example,
    soft_example,
)
from pipeline.core.training.objectives import (
    forward_anchor_loss,
    hard_target_loss,
    reverse_anchor_loss,
    soft_target_loss,
    with_outside_kl,
)
from pipeline.engines.sampling.generate import generate
from pipeline.engines.training import fit as fit_module
from pipeline.engines.training.fit import Checkpoint, Term, fit
from tests.engines.training.worlds import (
    BRANCHING,
    MAX_NEW,
    PER_STEP,
    PROMPTS,
    REFRESH,
    SEED,
    SETTINGS,
    TRIE,
    Numbers,
    adapter,
    on_policy_term,
)

STEPS, TEMPERATURE, OUTSIDE = 5, 1.7, 0.5
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
STRINGS = {(10,): 0.5, (11, 12): 0.2, (11, 13): 0.3}
"""TRIE's, whose terminator is 2."""


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


def term(name, weight, budget):
    """A term of the loss, of which ``loss_by_hand`` has the same."""
    targets = {
        "soft": (lambda p, s, i: soft_example(p, BRANCHING, np.random.default_rng([s, i]), 3), soft_target_loss),
        "exact": (lambda p, s, i: exact_example(p, TRIE), soft_target_loss),
        "hard": (lambda p, s, i: hard_example(p, completions(s, i)), hard_target_loss),
        "token": (lambda p, s, i: hard_example(p, completions(s, i), "token"), hard_target_loss),
    }
    if name in targets:
        make, objective = targets[name]
        return Term(name, each_prompt(make), objective, weight)
    if name == "outside":
        make, objective = targets["hard"]
        return Term(name, each_prompt(make), with_outside_kl(objective, OUTSIDE), weight, compares=True)
    objective = forward_anchor_loss if name == "anchors" else reverse_anchor_loss
    return Term(name, anchors, objective, weight, compares=True, kl_budget=budget)


METHODS = {
    "soft": [("soft", 1.0)],
    "exact": [("exact", 1.0)],
    "hard": [("hard", 1.0)],
    "token": [("token", 1.0)],
    "mixed": [("soft", 0.25), ("outside", 0.75)],
    "anchored": [("soft", 1.0), ("anchors", 0.3)],
    "reverse": [("hard", 1.0), ("reverse", 0.3)],
    "on_policy": [("soft", 1.0), ("on_policy", 0.5)],
}
BUDGETS = {"anchors": 0.004}
VARIANTS = {
    "whole": {},
    "passes of a row": {"micro_batch_size": 1},
    "passes of few tokens": {"tokens_per_pass": 12},
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


def base_laws(model, prompt, completion):
    with torch.no_grad(), model.disable_adapter():
        return log_laws(model, prompt, completion)


def kl(first, second):
    return (first.exp() * (first - second)).sum(-1)


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


def outside_loss(model, prompt, drawn):
    """Eq. 4 of some completions, and at each prefix KL(base || model) among the tokens that follow it in none."""
    total = 0.0
    for completion in drawn:
        own, base = log_laws(model, prompt, completion), base_laws(model, prompt, completion)
        for place in range(len(completion)):
            named = {other[place] for other in drawn if other[:place] == completion[:place] and len(other) > place}
            others = [token for token in range(own.shape[1]) if token not in named]
            divergence = kl(base[place, others].log_softmax(-1), own[place, others].log_softmax(-1))
            total = total + OUTSIDE * divergence / len(completion)
        total = total + token_losses(model, prompt, completion).mean()
    return total / len(drawn)


def reply_loss(model, pairs, is_forward):
    """Mean over the tokens of all replies."""
    values = []
    for prompt, reply in pairs:
        own, base = log_laws(model, prompt, reply), base_laws(model, prompt, reply)
        values.append(kl(base, own) if is_forward else kl(own, base))
    return torch.cat(values).mean()


def written_replies(model, step):
    """What the model as it is answers to instructions of both kinds in turn, each with a seed of its own."""
    count, places = REFRESH * PER_STEP, []
    while len(places) < count:
        rng = random_stream(SEED, "on_policy_order", "tiny", step, len(places) // len(PROMPTS))
        places += family_balanced_order(["a", "a", "b"], rng)
    pairs = []
    for index, place in enumerate(places[:count]):
        seed = stream_seed(SEED, "on_policy", "tiny", step, index)
        settings = {"stop_ids": {2}, "max_new_tokens": MAX_NEW, "temperature": 1.0, "top_p": 1.0, "batch_size": 1}
        (answer,) = generate(model, Numbers(), PROMPTS[place], [seed], **settings)
        ids = [int(part) for part in answer.text.split()]
        pairs.append((PROMPTS[place], ids + [2] * (answer.finish_reason == "stop" or not ids)))
    return pairs


def loss_by_hand(model, name, step, replies):
    places = range(len(PROMPTS))
    if name == "soft":
        losses = [soft_loss(model, PROMPTS[i], path) for i in places for path in soft_paths(step, i)]
        return torch.stack(losses).mean()
    if name == "exact":
        losses = []
        for prompt in PROMPTS:
            for string, mass in STRINGS.items():
                tokens = np.array([*string, 2])
                targets = [TRIE.next_tokens(string[:length]) for length in range(len(tokens))]
                losses.append(mass * soft_loss(model, prompt, (tokens, targets)))
        return sum(losses) / len(PROMPTS)
    if name in ("hard", "token"):
        losses = [token_losses(model, PROMPTS[i], drawn) for i in places for drawn in completions(step, i)]
        return torch.cat(losses).mean() if name == "token" else torch.stack([each.mean() for each in losses]).mean()
    if name == "outside":
        return torch.stack([outside_loss(model, PROMPTS[i], completions(step, i)) for i in places]).mean()
    if name == "on_policy":
        return reply_loss(model, replies[step % REFRESH * PER_STEP :][:PER_STEP], False)
    return reply_loss(model, [REPLIES[(step + place) % 3] for place in range(2)], name == "anchors")


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
        weights, replies = dict(METHODS[method]), []
        warmup = math.ceil(LOOP.warmup_ratio * STEPS)
        for step in range(STEPS):
            if method == "on_policy" and step % REFRESH == 0:
                replies = written_replies(model, step)
            losses = {name: loss_by_hand(model, name, step, replies) for name in weights}
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
            for name, budget in BUDGETS.items():
                if name in weights:
                    excess = max(-1.0, min(1.0, losses[name].item() / budget - 1))
                    weights[name] = max(dict(METHODS[method])[name], weights[name] * math.exp(0.2 * excess))
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
    terms = [
        on_policy_term(model, weight) if name == "on_policy" else term(name, weight, BUDGETS.get(name))
        for name, weight in METHODS[method]
    ]
    log = fit(
        model,
        terms,
        STEPS,
        replace(LOOP, **VARIANTS[variant]),
        seed=1,
        stream=("tiny", method),
        pad_id=0,
        checkpoint=Checkpoint(tmp_path / "state"),
    )
    expected_log, expected = by_hand(method)
    for entry, by_column in zip(log, expected_log, strict=True):
        assert {name: entry[name] for name in by_column} == pytest.approx(by_column, rel=1e-3, abs=1e-6)
    for value, wanted, start in zip(trained, expected, started, strict=True):
        moved = float((wanted.detach() - start).norm())
        assert moved > 0.01 and float((value - wanted).detach().norm()) < 5e-3 * moved
    # Clipped in some steps, and not in all.
    assert {entry["grad_norm"] > LOOP.max_grad_norm for entry in log} == {True, False}
