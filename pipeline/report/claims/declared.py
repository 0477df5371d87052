"""The claims of arXiv:2605.11845 in our words, each as contrasts of conditions on a metric."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd

Quantifier = Literal["mean", "most", "some", "kept", "within", "differ"]


@dataclass(frozen=True)
class Contrast:
    """One condition less another on a metric; ``quantifier`` says of what a claim is: the mean over models, most
    models, some model, a change within the margin, a mean within ``bounds``, or that models differ."""

    axis: str
    metric: str
    split: str
    own: str
    other: str
    better: Literal["lower", "higher"]
    margin: float = 0.0
    quantifier: Quantifier = "mean"
    log_ratio: bool = False  # log10 of own over other, in the place of the difference
    bounds: tuple[float, float] | None = None
    base_validity: float = 0.0  # only models whose base has as large a share of valid answers
    beyond: Sequence[str] = ()  # splits whose mean difference is taken off

    @property
    def name(self) -> str:
        return f"log10({self.own} / {self.other})" if self.log_ratio else f"{self.own} − {self.other}"

    def difference(self, own: pd.Series, other: pd.Series) -> pd.Series:
        """Of the two conditions by unit; NaN where a ratio has no logarithm."""
        return np.log10(own / other.where((own > 0) & (other > 0))) if self.log_ratio else own - other


@dataclass(frozen=True)
class Claim:
    """``together``: it holds where all its contrasts do (intersection-union: p is the largest, uncorrected)."""

    name: str
    text: str
    contrasts: Sequence[Contrast]
    paper: str  # tables, and what they say
    together: bool = False


SPLITS = ("ood", "unseen")
METHODS = ("soft", "hard")
PIT = "pit_wasserstein_1_all_answers"
MARGIN, TEXT_MARGIN, ACCURACY_MARGIN = 0.01, 0.02, 0.05
"""The smallest differences that matter: of W1 on the probability scale, bits per byte, and accuracy."""


def _numbers(
    metric: str, pairs: Sequence[tuple[str, str]], splits: Sequence[str] = SPLITS, **options
) -> list[Contrast]:
    return [
        Contrast("structured", metric, split, own, other, "lower", **options)
        for (own, other), split in product(pairs, splits)
    ]


_AGAINST_BASE = [(method, "base") for method in METHODS]
_LOST = [("base", method) for method in METHODS]
_BEST = [("soft", "base"), ("soft", "hard")]
_OTHER_TASKS = ("tinyMMLU", "tinyHellaswag", "tinyTruthfulQA", "tinyWinogrande")


def _tasks(splits: Sequence[str], pairs: Sequence[tuple[str, str]], **options) -> list[Contrast]:
    found = product(splits, pairs)
    return [Contrast("retention", "accuracy", split, own, other, "higher", **options) for split, (own, other) in found]


CLAIMS = (
    Claim(
        "C1",
        "Soft and hard both improve sampling, on held-out families and on unseen parameters",
        _numbers(PIT, _AGAINST_BASE, margin=MARGIN),
        "Tables 6, 7: both, substantially",
        together=True,
    ),
    Claim(
        "C2",
        "W1 falls for nearly every model",
        _numbers(PIT, _AGAINST_BASE, margin=MARGIN, quantifier="most"),
        "Tables 6, 7: nearly all of 12",
    ),
    Claim(
        "C3",
        "Logit KL falls by about a factor of ten",
        [
            contrast
            for metric in ("logit_kl_nats", "logit_kl_rounded_law_nats")
            for contrast in _numbers(metric, _AGAINST_BASE, quantifier="within", log_ratio=True, bounds=(-1.5, -0.5))
        ],
        "Tables 6, 7: about 10; a grid's arbitrary last digits floor it, every decimal does not",
    ),
    Claim(
        "C4",
        "Not formatting alone: valid answers of models that were nearly always valid improve, too",
        _numbers("pit_wasserstein_1", _AGAINST_BASE, margin=MARGIN, base_validity=0.95),
        "Tables 6, 7",
        together=True,
    ),
    Claim(
        "C5",
        "Hard is usually strongest on unseen parameters, soft as good on held-out families",
        [
            *_numbers(PIT, [("hard", "soft")], ["unseen"], margin=MARGIN, quantifier="most"),
            *_numbers(PIT, [("soft", "hard")], ["ood"], margin=MARGIN, quantifier="kept"),
        ],
        "Tables 6, 7: usually; competitive",
    ),
    Claim(
        "C6",
        "Fine-tuning beats String Seed of Thought",
        _numbers(PIT, [(method, "ssot") for method in METHODS], margin=MARGIN),
        "Tables 8, 9: on all checkpoints",
        together=True,
    ),
    Claim(
        "C7",
        "Soft considers more answers than base and hard",
        [
            Contrast("open", "top_p_support_size", "open", own, other, "higher", quantifier="most", log_ratio=True)
            for own, other in _BEST
        ],
        "Table 1: 12 of 12, often by 10 to 100 times",
        together=True,
    ),
    Claim(
        "C8",
        "Distinct answers become more frequent in some models",
        [Contrast("open", "unique_fraction", "open", *pair, "higher", quantifier="some") for pair in _AGAINST_BASE],
        "Table 1: strong in Qwen and Gemma",
    ),
    Claim(
        "C9",
        "Soft has the best NoveltyBench utility",
        [Contrast("novelty", "utility", "all", *pair, "higher", quantifier="most") for pair in _BEST],
        "Tables 1, 10: 8 of 12",
        together=True,
    ),
    Claim(
        "C10",
        "Answer positions come closer to uniform in most models",
        [Contrast("mcq", "mcq_total_variation", "mcq", *pair, "lower", quantifier="most") for pair in _AGAINST_BASE],
        "Table 20: most; mixed in Gemma, unstable in Llama",
    ),
    Claim(
        "C11",
        "Soft is better than hard beyond numbers, on all three axes",
        [
            Contrast("open", "top_p_support_size", "open", "soft", "hard", "higher", log_ratio=True),
            Contrast("mcq", "mcq_total_variation", "mcq", "soft", "hard", "lower"),
            Contrast("novelty", "utility", "all", "soft", "hard", "higher"),
        ],
        "abstract; its Section 5 favours neither on multiple choice",
        together=True,
    ),
    Claim(
        "C12",
        "Base has the best benchmark score in most models",
        [
            Contrast("retention", "gp_irt_paper_mean", "all", "base", method, "higher", quantifier="most")
            for method in METHODS
        ],
        "Tables 2, 21: all but four",
        together=True,
    ),
    Claim(
        "C13",
        "MMLU, HellaSwag and WinoGrande rise a little, TruthfulQA stays",
        [
            *_tasks(["tinyMMLU", "tinyHellaswag", "tinyWinogrande"], _AGAINST_BASE),
            *_tasks(["tinyTruthfulQA"], _AGAINST_BASE, margin=ACCURACY_MARGIN, quantifier="kept"),
        ],
        "Table 21: modestly",
    ),
    Claim(
        "C14",
        "Arithmetic is lost, more than other tasks, by model, and less of it by hard",
        [
            *_tasks(["GSM8K (flexible)"], _LOST, margin=ACCURACY_MARGIN),
            *_tasks(["GSM8K (flexible)"], _LOST, beyond=_OTHER_TASKS),
            *_tasks(["GSM8K (flexible)"], [("hard", "soft")]),
            *_tasks(["GSM8K (flexible)"], _AGAINST_BASE, quantifier="differ"),
        ],
        "Table 21: substantially",
    ),
    Claim(
        "C15",
        "Soft has the fewest bits per byte",
        [Contrast("paloma", "bits_per_byte", "all", *pair, "lower", TEXT_MARGIN, "most") for pair in _BEST],
        "Tables 22, 23: all nine Qwen and Gemma",
        together=True,
    ),
)
"""C16, that the chosen settings are the best trade-off, is a question of the ablations, whose tables have it."""
