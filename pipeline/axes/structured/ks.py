"""KS@100 of answers to requests for numbers: whether each request's answers agree with its law."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from pipeline.axes.structured.wasserstein import law_draws
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.prompts.number_answers import Invalid, parse_number
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import clustered_wilson_interval
from pipeline.core.statistics.ks_test import LEVEL, NUM_REFERENCE, passes
from pipeline.core.statistics.summarise import Statistic, mean_of, share_of

LEAST_READABLE = 0.9
"""The least share of readable answers with which a request can pass ``ks_at_100_all``."""


def ks_passes(prompt: Prompt, answers: Sequence[str | Invalid], seed: int) -> dict[str, float]:
    """``ks_at_100`` and ``ks_at_100_all`` of a request, 1 or 0. A readable answer is one number, inside the support or
    not; the law's values are the same for all models and conditions."""
    law = prompt.law
    readable = np.array([value for value in map(parse_number, answers) if not isinstance(value, Invalid)])
    reference = law_draws(law, (NUM_REFERENCE,), random_stream(seed, "ks reference", prompt.prompt_id))
    passed = passes(readable, reference, law.integer or isinstance(law, FiniteLaw))
    enough = len(readable) >= LEAST_READABLE * len(answers)
    return {"ks_at_100": float(passed), "ks_at_100_all": float(passed and enough)}


def _interval(column: str, rows: pd.DataFrame) -> tuple[float, float]:
    by_family = rows.groupby("family")[column]
    return clustered_wilson_interval(by_family.sum().to_numpy(), by_family.size().to_numpy())


def share_of_requests(column: str) -> tuple[Statistic, Statistic]:
    """The share of requests that pass, over families and of a family by itself. The intervals have a width also where
    all of them fail."""
    split = replace(mean_of(column), interval=lambda rows: _interval(column, rows), floor=lambda rows: 1 - LEVEL)
    return split, replace(share_of(column), floor=lambda rows: 1 - LEVEL)
