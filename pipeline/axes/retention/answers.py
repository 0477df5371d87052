"""How long generated answers are and what they show: tokens, whether they end by themselves, a visible derivation.

The paper's reading of what GSM8K loses (arXiv:2605.11845, Section 6): training on short direct completions moves
models to shorter answers without reasoning. These figures say whether a condition's answers are such.
"""

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from pipeline.core.random_streams import random_stream
from pipeline.core.retention.irt import resample_counts
from pipeline.core.statistics.intervals import Estimate, metric_row, percentile_interval, wilson_interval

SHARES = {"ended": "answer_stop_share", "derivation": "answer_derivation_share"}
"""Columns of an answer table that are true or false -> the metric of their share."""
ANNOTATION = re.compile(r"<<[^<>\n]*=[^<>\n]*>>")
TOKEN = re.compile(r"\d[\d,]*(?:\.\d+)?|\\times|\\cdot|\\div|[^\W\d_]+|\n|\S")
OPERATORS = frozenset("+-−–*/×·÷xX") | {"\\times", "\\cdot", "\\div"}
SIGNS, UNREAD = frozenset("-−"), frozenset("()[]{}$€£%\\")
UNIT_WORDS = 2
"""Most words behind a number of an equation, its unit ("9 duck eggs * 2")."""


def has_derivation(text: str) -> bool:
    """Whether an answer shows a step of arithmetic.

    That is a calculator annotation of GSM8K (``<<16-3=13>>``), or an equation of two numbers or more with an operator
    between them and the number that they make: ``16 - 3 - 4 = 9``, ``9 eggs * $2 = $18``, ``5 \\times 3 = 15``. A
    number by itself, a sentence, or steps in words alone are none.
    """
    return ANNOTATION.search(text) is not None or _has_equation(text.replace("**", ""))


def _has_equation(text: str) -> bool:
    """Whether two numbers or more are joined by operators and followed by an equals sign and a number."""
    operands, words, last = 0, 0, ""
    for token in TOKEN.findall(text):
        if token in UNREAD or (token in SIGNS and last in ("operator", "equals")):
            continue
        if token[0].isdecimal():
            if last == "equals":
                return True
            operands, words, last = operands + 1 if last == "operator" else 1, 0, "number"
        elif token in OPERATORS and last == "number":
            last = "operator"
        elif token == "=" and last == "number" and operands > 1:
            last = "equals"
        elif token.isalpha() and last == "number" and words < UNIT_WORDS:
            words += 1
        else:
            operands, last = 0, ""
    return False


def answer_table(answers: Mapping[int, Mapping]) -> pd.DataFrame:
    """Columns item, num_tokens, ended and derivation, by item.

    Args:
        answers: By item, ``answer`` (text), ``num_tokens`` (int, a stop token included) and ``finish_reason`` ("stop"
            or "length").
    """
    rows = [
        {
            "item": item,
            "num_tokens": int(answer["num_tokens"]),
            "ended": answer["finish_reason"] == "stop",
            "derivation": has_derivation(answer["answer"]),
        }
        for item, answer in sorted(answers.items())
    ]
    return pd.DataFrame(rows, columns=["item", "num_tokens", "ended", "derivation"])


def resampled_medians(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """float64[R], medians of the resamples that hold float64[n] ``values`` float64[R, n] ``counts`` times."""
    order, size = np.argsort(values, kind="stable"), len(values)
    held = counts[:, order].cumsum(axis=1)
    middle = [values[order][(held > place).argmax(axis=1)] for place in ((size - 1) // 2, size // 2)]
    return np.mean(middle, axis=0, dtype=np.float64)


def metric_rows(
    task: str, own: pd.DataFrame, base: pd.DataFrame | None, *, seed: int, model: str, replicates: int
) -> list[dict]:
    """Metrics of the answers to one task, as of ``pipeline.axes.retention.accuracy``.

    Intervals (95%) of tokens and of differences are bootstraps over items, the same resamples for all conditions and
    for the task's accuracy; those of shares are Wilson's.

    Args:
        task: Name of the task, which is the rows' split.
        own: ``answer_table`` of the condition.
        base: That of the base checkpoint, for differences own - base on the same items; None for the base itself.
        seed: Root seed; the model completes the stream's name.
        model: Model name.
        replicates: Resamples.
    """
    rng = random_stream(seed, "bootstrap", "retention", model, task)
    counts = resample_counts(len(own), replicates, rng)

    def row(metric: str, value: float, low: float, high: float) -> dict:
        return {"split": task, **metric_row(metric, Estimate(float(value), len(own), float(low), float(high)))}

    tokens = own["num_tokens"].to_numpy(dtype=np.float64)
    means, medians = counts @ tokens / len(own), resampled_medians(tokens, counts)
    rows = [
        row("answer_tokens_mean", tokens.mean(), *percentile_interval(means)),
        row("answer_tokens_median", np.median(tokens), *percentile_interval(medians)),
    ]
    for column, metric in SHARES.items():
        rows.append(row(metric, own[column].mean(), *wilson_interval(int(own[column].sum()), len(own))))
    if base is not None:
        for column, metric in (("num_tokens", "answer_tokens_mean"), ("derivation", SHARES["derivation"])):
            changes = own[column].to_numpy(dtype=np.float64) - base[column].to_numpy(dtype=np.float64)
            interval = percentile_interval(counts @ changes / len(own))
            rows.append(row(f"{metric}_difference", changes.mean(), *interval))
    return rows
