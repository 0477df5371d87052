"""The explorer's data from fabricated evaluations, against SciPy and by hand."""

import json
import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.laws.family import Law
from pipeline.core.prompts.structured import build_split
from pipeline.report.evaluations import read_evaluations
from pipeline.report.page.explorer import (
    LEVELS,
    decimals_of,
    exact_view,
    explorer_payload,
    law_view,
    law_window,
    pit_view,
    sample_view,
    shown_prompts,
)
from tests.report.conftest import CONDITIONS, metric_row, write_fabricated

POISSON = Law("poisson", {"mu": 4.0})
NORMAL = Law("norm", {"loc": 3.0, "scale": 2.0})
CAUCHY = Law("cauchy", {"loc": 0.0, "scale": 1.0})


def test_window_of_a_continuous_law():
    # Q.001 and Q.999 of the normal lie within half of Q95 - Q05 beyond the central 90%; those of Cauchy do not.
    window = law_window(NORMAL)
    assert window.grid[[0, -1]] == pytest.approx([3 - 2 * 3.0902, 3 + 2 * 3.0902], abs=1e-3)
    assert len(window.edges) == 21 and window.edges[0] == window.grid[0] and window.edges[-1] == window.grid[-1]
    assert law_window(CAUCHY).grid[[0, -1]] == pytest.approx([-2 * 6.3138, 2 * 6.3138], abs=1e-3)


def test_window_of_an_integer_law():
    window = law_window(POISSON)
    # Quantiles of Poisson(4): Q.001 = 0, Q.05 = 1, Q.95 = 8, Q.999 = 11; 8 + 3.5 is beyond 11, one more is shown.
    assert window.grid.tolist() == list(range(-1, 13))
    assert window.edges.tolist() == [k + 0.5 for k in range(-1, 13)]
    view = law_view(POISSON, window)
    assert np.diff(view["cdf"]) == pytest.approx(POISSON.freeze().pmf(np.arange(13)), abs=2e-5)


@pytest.mark.parametrize("split", ["unseen", "ood"])
def test_every_law_has_a_finite_window_within_its_support(split):
    for prompt in build_split(split):
        window = law_window(prompt.law)
        view = law_view(prompt.law, window)
        assert window.step > 0 and math.isfinite(window.start) and window.steps <= 160
        assert np.all(np.diff(view["cdf"]) >= 0)
        # More than the central 90% is drawn, short of what one cell at the ends may hold.
        assert view["cdf"][-1] - view["cdf"][0] > 0.9
        lower, upper = prompt.support
        shift = 1 if window.integer else 0
        assert window.grid[0] >= lower - shift - 1e-9 and (window.grid[-1] <= upper + 1e-9 or window.step > 1)


def test_samples_by_hand():
    window = law_window(POISSON)
    view = sample_view(np.array([0.0, 4.0, 4.0, 12.0, 13.0, 99.0]), window)
    assert view["counts"] == [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1]
    assert (view["below"], view["above"]) == (0, 2)
    # Levels up to 1/6 give the smallest sample, up to 1/2 the third.
    assert [view["quantiles"][place] for place in (0, 32, 33, 99, 100, 199)] == [0, 0, 4, 4, 12, 99]
    assert sample_view(np.array([]), window)["quantiles"] == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), max_size=300), st.sampled_from([POISSON, NORMAL, CAUCHY]))
def test_no_sample_is_lost_and_quantiles_are_samples(values, law):
    window = law_window(law)
    samples = np.round(np.array(values)) if law.integer else np.array(values)
    view = sample_view(samples, window)
    assert sum(view["counts"]) + view["below"] + view["above"] == len(samples)
    expected = np.quantile(samples, LEVELS, method="inverted_cdf") if len(samples) else []
    assert view["quantiles"] == pytest.approx(expected, abs=10.0 ** -decimals_of(window))


def columns(**values):
    return {name: np.array(members) for name, members in values.items()}


def test_bounds_are_rounded_outwards():
    bounds = columns(x=[1.0, 2.0, 3.0], cdf_low=[0.12345, 0.5, np.nan], cdf_high=[0.12346, 0.5, 1.0])
    view = exact_view(bounds, law_window(NORMAL))
    assert view["low"] == [0.1234, 0.5, None] and view["high"] == [0.1235, 0.5, 1.0]


def test_pit_band_is_binomial():
    view = pit_view(columns(bin=range(19, -1, -1), count=range(20)))
    assert view["counts"] == list(range(19, -1, -1))
    # The least counts that Binomial(190, 1/20) stays at or below with probabilities of at least 0.025 and 0.975.
    assert (view["low"], view["high"]) == (4, 16)
    empty = pit_view(columns(bin=range(20), count=[0] * 20))
    assert (empty["low"], empty["high"]) == (0, 0)


MODELS = {"alpha": "Alpha", "beta": "Beta"}


def test_prompts_are_thinned_evenly_and_only_if_needed():
    prompts = build_split("ood")
    assert shown_prompts(prompts, 4, limit=4 * len(prompts)) == prompts
    sizes = Counter(prompt.family for prompt in prompts)
    assert max(sizes.values()) == 36
    few = shown_prompts(prompts, 10, limit=10 * 3 * len(sizes))
    assert Counter(prompt.family for prompt in few) == dict.fromkeys(sizes, 3)
    weibull = [prompt for prompt in prompts if prompt.family == "weibull"]
    assert [weibull.index(prompt) for prompt in few if prompt.family == "weibull"] == [0, 17, 35]
    assert Counter(p.family for p in shown_prompts(prompts, 1000, limit=1)) == dict.fromkeys(sizes, 1)


def per_prompt(prompt, **more):
    row = {
        **{"prompt_id": prompt.prompt_id, "num_samples": 5, "num_valid": 4, "wasserstein_1_normalised": 0.25},
        **{"floor": 0.1, "invalid_empty": 0, "invalid_not_a_number": 1},
    }
    return pd.DataFrame([{**row, **more}])


def test_what_there_is_and_what_is_not(tmp_path, prompts):
    members, _ = prompts
    first = members[0]
    samples = pd.DataFrame({"prompt_id": [first.prompt_id, "dice-0000000000"], "values": [[0.0, 1.0, 1.0, 2.0], [1.0]]})
    pit = pd.DataFrame({"prompt_id": first.prompt_id, "bin": range(20), "count": 1, "expected": 0.2})
    exact = pd.DataFrame({"x": [0.0, 1.0], "cdf_low": [0.3, 0.7], "cdf_high": [0.4, 0.8], "target_cdf": [0.37, 0.74]})
    exact["prompt_id"] = first.prompt_id
    row = ("ood", "wasserstein_1_normalised", 0.25)
    numbers = per_prompt(first, logit_kl_nats=np.nan, exact_wasserstein_1_normalised_low=0.2)
    write_fabricated(
        tmp_path,
        [metric_row("structured", "alpha", "soft", *row)],
        samples=samples,
        exact_cdf=exact,
        pit=pit,
        per_prompt=numbers,
    )
    write_fabricated(
        tmp_path, [metric_row("structured", "alpha", "ssot", *row)], samples=samples, per_prompt=per_prompt(first)
    )
    write_fabricated(tmp_path, [metric_row("structured", "beta", "base", *row)], per_prompt=per_prompt(first))
    payload = explorer_payload(read_evaluations(tmp_path), members, MODELS, CONDITIONS)
    json.dumps(payload, allow_nan=False)

    assert payload["conditions"] == ["base", "soft", "hard", "ssot"] and payload["omitted"] == 0
    assert list(payload["prompts"]) == [prompt.prompt_id for prompt in members]
    assert payload["prompts"][first.prompt_id]["text"] == first.text
    assert set(payload["results"]) == {"alpha", "beta"} and set(payload["results"]["alpha"]) == {"soft", "ssot"}
    soft = payload["results"]["alpha"]["soft"]
    assert soft["absent"] == {} and set(soft["prompts"]) == {first.prompt_id}
    found = soft["prompts"][first.prompt_id]
    assert found["invalid"] == {"not_a_number": 1} and (found["n"], found["valid"]) == (5, 4)
    assert [found[key] for key in ("w1", "floor", "kl", "exactLow", "exactHigh")] == [0.25, 0.1, None, 0.2, None]
    assert found["samples"]["counts"][:3] == [1, 2, 1]
    assert found["exact"] == {"x": [0.0, 1.0], "low": [0.3, 0.7], "high": [0.4, 0.8]}
    assert found["pit"]["counts"] == [1] * 20

    ssot = payload["results"]["alpha"]["ssot"]["absent"]
    assert ssot["exact"] == "evaluated on samples alone"
    base = payload["results"]["beta"]["base"]
    assert "pit.parquet" in ssot["pit"] and "exact_cdf.parquet" in base["absent"]["exact"]
    assert "samples.parquet" in base["absent"]["samples"]
    assert base["source"].endswith("structured/beta/base/provenance.json")
