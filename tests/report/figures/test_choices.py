"""Which models are shown, and the sentences at the top of the page."""

import math

import pandas as pd

from pipeline.report.figures.choices import best_ssot_model, headline, overlay_models
from tests.report.conftest import metric_frame, metric_row


def sampled(values):
    """W1 rows for {(model, condition): value}; the floor of ssot is larger."""
    return [
        metric_row(
            "structured",
            model,
            condition,
            split,
            "wasserstein_1_normalised",
            value,
            floor=0.09 if condition == "ssot" else 0.02,
        )
        for (model, condition), value in values.items()
        for split in ("ood", "unseen")
    ]


def test_overlay_models_take_the_best_of_each_tokenizer():
    tokenizers = {"a": "x", "b": "x", "c": "y"}
    values = {("a", "soft"): 0.3, ("b", "soft"): 0.15, ("c", "hard"): 0.2, ("a", "ssot"): 0.01, ("d", "soft"): 0.1}
    metrics = metric_frame(sampled(values))
    assert overlay_models(tokenizers, metrics) == ["b", "c"]
    assert overlay_models(tokenizers, metrics, limit=1) == ["b"]


def test_the_ssot_overlay_takes_the_model_that_is_best_under_ssot():
    metrics = metric_frame(sampled({("a", "ssot"): math.nan, ("b", "ssot"): 0.3, ("c", "soft"): 0.1}))
    assert best_ssot_model(["a", "b", "c"], metrics) == "b"
    assert best_ssot_model(["a", "c"], metrics) == "a"  # undefined is better than not run
    assert best_ssot_model(["c"], metrics) is None


def test_headline_of_structured_sampling_is_the_median_over_models():
    values = {
        ("a", "base"): 0.5,
        ("a", "soft"): 0.1,
        ("a", "hard"): 0.2,
        ("b", "base"): math.nan,
        ("b", "soft"): 0.3,
        ("a", "ssot"): 0.4,
    }
    text = headline(metric_frame(sampled(values)))
    assert text.startswith(
        "On held-out families, normalised W1 is base 0.500, soft 0.200, hard 0.200; a perfect sampler scores 0.020."
    )


def test_headline_of_the_other_axes():
    rows = [
        metric_row("open", "a", "base", "open", "top_p_support_size", 3.0),
        metric_row("open", "a", "soft", "open", "top_p_support_size", 300.0),
        metric_row("mcq", "a", "base", "mcq", "mcq_total_variation", math.nan),
        metric_row("mcq", "a", "soft", "mcq", "mcq_total_variation", 0.1),
        metric_row("novelty", "a", "base", "all", "utility_stand_in", 4.0),
        metric_row("novelty", "a", "base", "curated", "utility_stand_in", 1.0),
    ]
    text = headline(metric_frame(rows))
    assert "90% of the first token's probability is on base 3.0, soft 300.0 tokens." in text
    assert "TV" not in text  # base is undefined, so there is nothing to compare with
    assert text.endswith("NoveltyBench utility by a stand-in evaluator, not the benchmark's is base 4.00.")


def test_headline_of_retention_counts_verdicts():
    rows = [
        metric_row("retention", "a", "base", "all", "gp_irt", 0.5),
        metric_row("retention", "a", "soft", "all", "gp_irt", 0.25),
        metric_row("paloma", "a", "base", "all", "bits_per_byte_without_bos", 1.5),
    ]
    tests = {
        "retention": pd.DataFrame(
            {
                "condition": ["soft"] * 3,
                "split": ["tinyMMLU", "tinyGSM8k (strict)", "tinyGSM8k (flexible)"],
                "verdict": ["kept", "lost", "cannot tell"],
                "model": ["a"] * 3,
                "metric": ["accuracy"] * 3,
            }
        ),
        "paloma": pd.DataFrame(columns=["model", "condition", "split", "metric", "verdict"], dtype=str),
    }
    # GSM8K counts once, in its flexible reading.
    assert headline(metric_frame(rows), tests) == (
        "Accuracy on TinyBenchmarks, as gp-IRT estimates it, is base 0.500, soft 0.250. Tested against base over "
        "models and tasks: soft 1 kept, 1 cannot tell. Held-out text costs base 1.5000 bits per byte."
    )


def test_headline_of_nothing():
    assert headline(metric_frame([])) == "No evaluation has been run yet."
