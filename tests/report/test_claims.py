"""The paper's claims decided in worlds that are known, and on recorded evaluations against a few lines of pandas."""

import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pipeline.core.statistics.sign_flips import Effect
from pipeline.report.claims.decide import Evidence, clopper_pearson, decide, side, together
from pipeline.report.claims.declared import CLAIMS, PIT, Contrast
from pipeline.report.claims.table import between_models, claims_records, effects_by_model, same_prompts
from pipeline.report.evaluations import Evaluations, read_evaluations
from tests.conftest import ROOT
from tests.report.conftest import metric_frame, metric_row

RECORDED = ROOT / "results/laptop_longer/seed_0"


def evidence_of(value, width, p):
    ends = (value - width, value + width)
    return Evidence(Effect(24, value, *ends, p, *ends), "families")


def world(contrast, direction, models=12):
    """Evidence of models whose effects are what a claim says (1), the opposite (-1), or in between (0)."""
    far, sign = contrast.margin + 0.2, {"higher": 1, "lower": -1}[contrast.better] * direction
    if contrast.bounds is not None:
        centre = np.mean(contrast.bounds) if direction > 0 else 1.0
    elif contrast.quantifier == "kept":
        centre = 0.0 if direction > 0 else 0.3
    else:
        centre = far * sign
    width = 0.008 if contrast.quantifier == "kept" else 0.05
    estimates = centre + 0.1 * width * np.linspace(-1, 1, models)
    return {f"m{n}": evidence_of(float(value), width, 0.001) for n, value in enumerate(estimates)}


@pytest.mark.parametrize(("direction", "verdict"), [(1, "holds"), (-1, "contradicted")])
def test_claims_hold_where_they_are_true_and_are_contradicted_where_the_opposite_is(direction, verdict):
    for claim in CLAIMS:
        worlds = [world(contrast, direction) for contrast in claim.contrasts]
        pairs = list(zip(claim.contrasts, worlds, strict=True))
        rows = [decide(contrast, by_model, 0) for contrast, by_model in pairs]
        for contrast, row in zip(claim.contrasts, rows, strict=True):
            assert row["verdict"] == verdict, contrast
            assert math.isnan(row["p"]) or (row["p"] <= 0.05) == (not row["ci_low"] <= 0 <= row["ci_high"])
        sides = [{model: side(own.effect, contrast) for model, own in by_model.items()} for contrast, by_model in pairs]
        row = together(rows, sides)
        assert row["verdict"] == verdict and row["p"] == max(row["p"] for row in rows)
        # What must stay within a margin may have moved either way.
        if all(contrast.quantifier != "kept" for contrast in claim.contrasts):
            assert (row["holds"], row["against"]) == ((12, 0) if direction > 0 else (0, 12))


def test_without_an_effect_few_worlds_decide():
    contrast, rng, decided = Contrast("structured", PIT, "ood", "soft", "base", "lower"), np.random.default_rng(0), 0
    for _ in range(200):
        by_model = {f"m{n}": evidence_of(value, 0.1, 0.3) for n, value in enumerate(rng.laplace(size=12))}
        decided += decide(contrast, by_model, 0)["verdict"] != "open"
    # 5% of 200 worlds, and two standard errors.
    assert decided / 200 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 200)


def test_few_models_are_undecidable_and_one_is_its_own_test():
    contrast = Contrast("structured", PIT, "ood", "soft", "base", "lower", margin=0.01)
    three, one = (decide(contrast, world(contrast, 1, models), 0) for models in (3, 1))
    assert three["verdict"] == "undecidable at n = 3" and three["holds"] == 3 and math.isnan(three["ci_low"])
    assert (one["verdict"], one["p"], one["p_method"]) == ("holds", 0.001, "families")
    assert decide(contrast, {}, 0)["verdict"] == "not run"
    # All of 5 are not most by the share's interval, all of 6 are.
    assert clopper_pearson(5, 5)[0] < 0.5 < clopper_pearson(6, 6)[0]


def test_recorded_evaluations_by_hand():
    # As two training seeds, whose mean is that of one.
    runs = [read_evaluations(RECORDED / "evals")] * 2
    records = claims_records({"smollm2": runs}, 0).set_index(["id", "contrast", "split", "primary_metric"])
    for condition, split in (("soft", "unseen"), ("hard", "ood")):
        path = RECORDED / "evals/structured/smollm2"
        own, base = (pd.read_parquet(path / name / "per_prompt.parquet") for name in (condition, "base"))
        both = own.merge(base, on=["prompt_id", "split", "family"])
        both = both[both["split"] == split]
        by_family = (both[f"{PIT}_x"] - both[f"{PIT}_y"]).groupby(both["family"]).mean()
        row = records.loc["C1", f"{condition} − base", split, PIT]
        assert row["estimate"] == pytest.approx(by_family.mean(), abs=1e-9)
        means = both.groupby("family")[[f"{PIT}_x", f"{PIT}_y"]].mean().mean()
        assert row[["own", "other"]].tolist() == pytest.approx(means.tolist(), abs=1e-9)
        assert (row["ci_low"] <= row["estimate"] <= row["ci_high"]) and (row["verdict"] == "holds") == (
            split == "unseen"
        )
    with pytest.raises(Exception, match="smollm2 was asked 96 other prompts of structured"):
        same_prompts(runs, read_evaluations(ROOT / "results/laptop/evals"), "smollm2")


def test_a_loss_beyond_other_tasks_is_of_mean_changes():
    """Each task loses .3 of its items: no more of one than of the others, and a test at 5% says so."""
    (contrast,) = [each for claim in CLAIMS for each in claim.contrasts if each.beyond and each.other == "soft"]
    rng, rejected, shares = np.random.default_rng(0), 0, {"base": 0.7, "soft": 0.4}
    for _ in range(400):
        scores = {
            (split, name): pd.Series(rng.random(100) < share, dtype=float)
            for split in (contrast.split, *contrast.beyond)
            for name, share in shares.items()
        }
        run = SimpleNamespace(by_unit=lambda *labels, scores=scores: scores[labels[1], labels[4]])
        effect = effects_by_model({"m": [run]}, contrast, 0)["m"].effect
        lost = {split: (scores[split, "base"] - scores[split, "soft"]).mean() for split, _ in scores}
        assert effect.estimate == pytest.approx(lost.pop(contrast.split) - sum(lost.values()) / 4)
        assert (effect.p <= 0.05) == (not effect.ci_low <= 0 <= effect.ci_high)
        rejected += effect.p <= 0.05
    assert 0.02 < rejected / 400 < 0.08


def test_arithmetic_is_lost_by_some_models_more_than_by_others():
    """Every second of eight models loses .3 of its answers; or each loses .15."""
    (contrast,) = [each for claim in CLAIMS for each in claim.contrasts if each.quantifier == "differ"][:1]
    rng, rows = np.random.default_rng(0), []
    for losses in ([0.3, 0.0] * 4, [0.15] * 8):
        runs = {}
        for model, loss in enumerate(losses):
            base = pd.Series(rng.random(400) < 0.6, dtype=float)
            own = base * (rng.random(400) >= loss / 0.6)
            scores = {"base": base, contrast.own: own}
            runs[f"m{model}"] = [SimpleNamespace(by_unit=lambda *labels, scores=scores: scores[labels[4]])]
        rows.append(between_models(runs, contrast, 0))
    assert [row["verdict"] for row in rows] == ["holds", "open"]
    assert rows[0]["estimate"] == pytest.approx(0.16, abs=0.03) and rows[1]["estimate"] < 0.03
    assert between_models({"m0": runs["m0"]}, contrast, 0) == {"verdict": "not run"}


def test_changes_of_which_only_intervals_are_recorded():
    """As of bits per byte: soft fell by .10 +- .02 and .14 +- .04 in two runs, hard rose by .01 +- .01."""
    runs = []
    for change, half in ((-0.10, 0.02), (-0.14, 0.04)):
        rows = []
        for condition, moved, width in (("base", 0, math.nan), ("soft", change, half), ("hard", 0.01, 0.01)):
            row = metric_row("paloma", "m", condition, "all", "bits_per_byte", 1 + moved)
            ends = (moved - width, moved + width)
            rows.append(row | {"change": moved, "change_low": ends[0], "change_high": ends[1]})
        runs.append(Evaluations(metric_frame(rows), pd.DataFrame(), {}, {}))
    for own, other, centre, width in (("soft", "base", -0.12, 0.03), ("soft", "hard", -0.13, 0.04)):
        effect = effects_by_model({"m": runs}, Contrast("paloma", "bits_per_byte", "all", own, other, "lower"), 0)
        effect = effect["m"].effect
        assert effect.estimate == pytest.approx(centre)
        assert (effect.ci_low, effect.ci_high) == pytest.approx((centre - width, centre + width))
        assert effect.p == pytest.approx(2 * stats.norm.sf(-centre / (width / 1.95996)), rel=1e-3)
    barely = [
        Evaluations(
            metric_frame([dict(row, change_high=end) for row in runs[0].metrics.to_dict("records")]),
            pd.DataFrame(),
            {},
            {},
        )
        for end in (0.001, -0.001)
    ]
    found = [
        effects_by_model({"m": [run]}, Contrast("paloma", "bits_per_byte", "all", "soft", "base", "lower"), 0)["m"]
        for run in barely
    ]
    assert [each.effect.p <= 0.05 for each in found] == [False, True]


def test_what_does_not_fit_is_left_out_by_name():
    given = [str(RECORDED), "results/laptop", "results/nothing"]
    command = [sys.executable, "-m", "pipeline.report.claims", *given]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "C1. Soft and hard both improve sampling" in done.stdout, done.stderr
    assert "left out: results/laptop: smollm2 was asked" in done.stderr
    assert "left out: results/nothing: it has no folder evals" in done.stderr
