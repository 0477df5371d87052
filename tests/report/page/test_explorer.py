"""The explorer's data from fabricated evaluations."""

import json
from collections import Counter

import numpy as np
import pandas as pd

from pipeline.core.prompts.structured import build_split
from pipeline.report.evaluations import read_evaluations
from pipeline.report.page.explorer import explorer_payload, shown_prompts
from tests.report.conftest import CONDITIONS, metric_row, write_fabricated

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
        "prompt_id": prompt.prompt_id,
        "num_samples": 5,
        "num_valid": 4,
        "wasserstein_1_normalised": 0.25,
        "wasserstein_1_normalised_ci_low": 0.2,
        "wasserstein_1_normalised_ci_high": 0.3,
        "floor": 0.1,
        "invalid_empty": 0,
        "invalid_not_a_number": 1,
    }
    return pd.DataFrame([{**row, **more}])


def test_what_there_is_and_what_is_not(tmp_path, prompts):
    members, _ = prompts
    first = members[0]
    samples = pd.DataFrame({"prompt_id": [first.prompt_id, "dice-0000000000"], "values": [[0.0, 1.0, 1.0, 2.0], [1.0]]})
    pit = pd.DataFrame({"prompt_id": first.prompt_id, "bin": range(20), "count": 1, "expected": 0.2})
    exact = pd.DataFrame(
        {
            "prompt_id": first.prompt_id,
            "x": [0.0, 1.0],
            "cdf_low": [0.3, 0.7],
            "cdf_high": [0.4, 0.8],
            "target_cdf": [0.37, 0.74],
        }
    )
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
    assert (found["w1"], found["floor"], found["kl"], found["exactLow"], found["exactHigh"]) == (
        0.25,
        0.1,
        None,
        0.2,
        None,
    )
    assert found["samples"]["counts"][:3] == [1, 2, 1]
    assert found["exact"] == {"x": [0.0, 1.0], "low": [0.3, 0.7], "high": [0.4, 0.8]}
    assert found["pit"]["counts"] == [1] * 20

    ssot = payload["results"]["alpha"]["ssot"]["absent"]
    assert ssot["exact"] == "evaluated on samples alone"
    base = payload["results"]["beta"]["base"]
    assert "pit.parquet" in ssot["pit"] and "exact_cdf.parquet" in base["absent"]["exact"]
    assert "samples.parquet" in base["absent"]["samples"]
    assert base["source"].endswith("structured/beta/base/provenance.json")
