"""The first screen: the effect in a sentence, what is kept, and lines that fit a terminal."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.config.params import load_params
from pipeline.core.laws.cells import LINE, line_of, line_shares
from pipeline.core.laws.family import Law
from pipeline.report.result import W1, effect_sentence, kept_sentence, make_result, screen
from tests.report.conftest import context_of, metric_row


@pytest.fixture
def context(two_models):
    """Makes the context of W1 of conditions by model, with the interval of the change."""

    def made(values, change=(-0.4, -0.1), models=("alpha",), more=()):
        params = load_params(two_models)
        params = replace(params, models={name: params.models[name] for name in models})
        ends = dict(zip(("change_low", "change_high"), change, strict=True))
        rows = [
            metric_row("structured", model, condition, "ood", W1, value, floor=0.02) | ends
            for model, own in values.items()
            for condition, value in own.items()
        ]
        return context_of(params, [*rows, *more])

    return made


@pytest.mark.parametrize(
    ("after", "change", "words"),
    [
        (0.1, (-0.4, -0.1), "cut the distance"),
        (0.5, (0.02, 0.3), "raised the distance"),
        (0.29, (-0.1, 0.1), "did not clearly change the distance"),
    ],
)
def test_the_effect_comes_first_and_its_verb_follows_the_interval(context, after, change, words):
    sentence = effect_sentence(context({"alpha": {"base": 0.3, "hard": after}}, change), "hard")
    assert words in sentence and f"from 0.300 to {after:.3f} on families" in sentence
    assert f"(95% of the change {change[0]:+.3f} to {change[1]:+.3f})" in sentence
    assert sentence.endswith("a perfect sampler scores 0.020.")


def test_several_models_are_medians_and_none_says_so(context):
    values = {"alpha": {"base": 0.4, "soft": 0.1}, "beta": {"base": 0.2, "soft": 0.2}}
    sentence = effect_sentence(context(values, models=("alpha", "beta")), "soft")
    assert "from 0.300 to 0.150 on families" in sentence and "(medians over 2 models)" in sentence
    assert "not evaluated both before and after" in effect_sentence(context({"alpha": {"soft": 0.1}}), "soft")


def test_what_is_kept_and_lost(context):
    parsed = [
        metric_row("mcq", "alpha", name, "mcq", "mcq_parse_rate", v) for name, v in (("base", 1.0), ("soft", 0.5))
    ]
    text = [metric_row("paloma", "alpha", "soft", "all", "bits_per_byte", 2.0) | {"change": 0.25}]
    sentence = kept_sentence(context({}, more=[*parsed, *text]))
    assert "still get a letter: base 100%, soft 50%. Text, bits per byte, change from base: soft +0.2500." in sentence


def test_a_line_has_the_shape_of_the_law():
    uniform = Law("uniform", {"loc": 0.0, "scale": 1.0})
    target, shares = line_shares(uniform, np.full(10, 0.5))
    asked = line_of(target, target)
    # The view reaches no farther than the support; what lies in one cell is one full block there.
    assert len(asked) == LINE and len(set(asked)) == 1 and asked[0] == "▅"
    assert line_of(shares, target).strip() == "█" and shares.sum() == 1


def test_the_screen_fits(two_models, prompts, tmp_path, context):
    found = make_result(context({"alpha": {"base": 0.3, "soft": 0.1, "hard": 0.2}}))
    drawn = replace(found, histograms=[("Law(a=1)", {"asked": "▅" * LINE, "hard": "▁" * LINE})] * 6)
    text = screen(drawn, ["make claims"])
    assert len(text.splitlines()) <= 40 and max(map(len, text.splitlines())) <= 110
    assert "[" in text and text.count("▅" * LINE) == 6 and text.endswith("make claims\n")
