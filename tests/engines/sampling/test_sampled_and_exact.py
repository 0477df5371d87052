"""What sampling estimates converges to what the exact law computes, on the shipped model."""

import math

import numpy as np
import pytest

from pipeline.axes.structured.wasserstein import evaluate_prompt, interquantile_width
from pipeline.config.params import load_params
from pipeline.core.exact.number_law import bound_number_law, candidate_tokens
from pipeline.core.exact.trie_law import exact_law, leaf_sequences
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import build_split
from pipeline.core.tries.digit_tokens import DigitTokens
from pipeline.core.tries.trie import build_tries
from pipeline.engines.loading.chat import answer_terminator, encode_request
from pipeline.engines.loading.digit_rule import find_digit_tokens
from pipeline.engines.loading.model import load_model, load_tokenizer
from pipeline.engines.sampling.generate import generate, sample_seeds
from pipeline.engines.scoring.tree_scorer import TreeScorer
from tests.conftest import ROOT

PROMPTS = {p.family: p for split in ("unseen", "ood") for p in build_split(split, selection="selected")}


class Shipped:
    """The embedded base model, its digit rule and its answers."""

    def __init__(self):
        config = load_params(ROOT / "params.yaml").models["embedded"]
        self.config, self.tokenizer, self.model = config, load_tokenizer(config), load_model(config, device="cpu")
        self.scorer = TreeScorer(self.model)
        self.terminator = answer_terminator(self.tokenizer, config.terminator)
        self.rule: DigitTokens = find_digit_tokens(self.tokenizer, self.terminator)

    def encode(self, prompt) -> list[int]:
        return encode_request(self.tokenizer, prompt.text, self.config.chat.template_arguments)

    def answers(self, prompt, count: int) -> list[str]:
        results = generate(
            self.model,
            self.tokenizer,
            self.encode(prompt),
            sample_seeds(0, ("exact", prompt.prompt_id), count),
            stop_ids={self.terminator},
            max_new_tokens=32,
            temperature=1.0,
            top_p=1.0,
            batch_size=500,
        )
        return [result.text for result in results]


@pytest.fixture(scope="module")
def shipped(monkeypatch_module) -> Shipped:
    return Shipped()


@pytest.fixture(scope="module")
def monkeypatch_module():
    patch = pytest.MonkeyPatch()
    patch.chdir(ROOT)
    yield patch
    patch.undo()


@pytest.mark.parametrize("family", ["logistic", "truncnorm", "poisson"])
def test_sampled_w1_and_ks_converge_to_the_bounds(shipped, family):
    prompt = PROMPTS[family]
    bounds = bound_number_law(
        prompt.law,
        shipped.rule,
        shipped.scorer.path_scorer(shipped.encode(prompt), candidate_tokens(shipped.rule)),
        width=0.002,
    )
    assert bounds.achieved_width <= 0.002
    result = evaluate_prompt(shipped.answers(prompt, 4000), prompt.law)
    # Masking the grammar moves mass that is smaller than the sampling error.
    assert bounds.mass_outside < 0.004
    samples, window = result.samples, result.wasserstein_1_window_normalised
    low, high = prompt.law.freeze().ppf([0.001, 0.999])
    error = np.clip(samples, low, high).std() / math.sqrt(len(samples)) / interquantile_width(prompt.law)
    assert bounds.wasserstein_1_low - 4 * error < window < bounds.wasserstein_1_high + 4 * error
    few = evaluate_prompt(shipped.answers(prompt, 4000)[:100], prompt.law)
    middle = (bounds.wasserstein_1_low + bounds.wasserstein_1_high) / 2
    assert abs(window - middle) < max(abs(few.wasserstein_1_window_normalised - middle), 2 * error)
    # Dvoretzky-Kiefer-Wolfowitz: exceeded with probability 1e-4.
    values = np.unique(samples)
    empirical = np.searchsorted(np.sort(samples), values, side="right") / len(samples)
    cdf = prompt.law.freeze().cdf
    left = np.abs(np.append(0.0, empirical[:-1]) - (cdf(values - 1) if prompt.law.integer else cdf(values)))
    distance = max(np.abs(empirical - cdf(values)).max(), left.max())
    slack = math.sqrt(math.log(2e4) / (2 * len(samples)))
    assert bounds.ks_low - slack < distance < bounds.ks_high + slack


def test_counts_of_strings_follow_their_exact_probabilities(shipped):
    prompt = PROMPTS["poisson"]
    space = discretize(prompt.law, num_decimals=5, max_bins=1001)
    trie = next(build_tries([space], shipped.rule))
    ids = shipped.encode(prompt)
    exact = exact_law(trie, shipped.scorer.score_trie(shipped.scorer.prefill(ids), trie))
    texts = [shipped.rule.decode(sequence) for sequence in leaf_sequences(trie)]
    drawn = shipped.answers(prompt, 4000)
    expected = np.append(np.exp(exact.log_probabilities), exact.mass_off_trie) * len(drawn)
    counts = [drawn.count(text) for text in texts]
    observed = np.array([*counts, len(drawn) - sum(counts)])
    keep = expected >= 5
    observed = np.append(observed[keep], observed[~keep].sum())
    expected = np.append(expected[keep], expected[~keep].sum())
    statistic = ((observed - expected) ** 2 / np.maximum(expected, 1)).sum()
    degrees = len(expected) - 1
    assert statistic < degrees + 4 * math.sqrt(2 * degrees)
