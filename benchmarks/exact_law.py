"""The model's law computed exactly: tree scoring of a trie, and bounds over all plain decimals.

On the embedded model (CPU, float32). ``trie`` scores every prefix of the 1,001 canonical strings
of a Gaussian: packed, by levels, and string by string (each with its full prompt, 16 to a
batch; a part of the batches is run and scaled up). ``bounds`` expands digit prefixes of an
evaluation prompt, best first, until the bounds of normalised W1 are 0.001 apart or the budget is spent.
"""

import time
from collections.abc import Sequence

import numpy as np
import torch

from benchmarks.measure import best
from benchmarks.workload import MODEL
from pipeline.core.exact.number_law import bound_number_law, candidate_tokens
from pipeline.core.exact.trie_law import exact_law, leaf_index
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import Prompt, build_split
from pipeline.core.tries.trie import Trie, build_trie
from pipeline.engines.loading.chat import answer_terminator, encode_answers, encode_request
from pipeline.engines.loading.digit_rule import find_digit_tokens
from pipeline.engines.loading.model import load_model, load_tokenizer
from pipeline.engines.scoring.tree_scorer import TreeScorer

BATCH = 16
FAMILIES = ("gaussian", "exponential", "uniform", "poisson", "binomial", "cauchy")


@torch.inference_mode()
def _string_by_string(model: torch.nn.Module, prompt_ids: Sequence[int], sequences: Sequence[Sequence[int]]) -> None:
    """Log-probabilities along each string, as a plain evaluation would compute them."""
    rows = [[*prompt_ids, *sequence] for sequence in sequences]
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    logits = model(input_ids=ids, attention_mask=mask).logits[:, len(prompt_ids) - 1 :]
    torch.log_softmax(logits.float(), dim=-1)


def _trie_rows(
    model: torch.nn.Module,
    prompt_ids: list[int],
    trie: Trie,
    sequences: list[list[int]],
    values: np.ndarray,
    batches: int,
    repeats: int,
) -> list[dict]:
    total = -(-len(sequences) // BATCH)
    spread = np.linspace(0, total - 1, min(batches, total)).astype(int).tolist()
    measured = sum(
        best(lambda at=at: _string_by_string(model, prompt_ids, sequences[at * BATCH : (at + 1) * BATCH]), repeats)[0]
        for at in spread
    )
    baseline = measured * total / len(spread)
    tokens = sum(len(prompt_ids) + len(sequence) for sequence in sequences)
    case = f"trie of {len(sequences):,} strings"
    rows = [
        {
            "case": case,
            "implementation": "string by string",
            "seconds": baseline,
            "ratio": 1.0,
            "positions": tokens,
            "note": f"{len(spread)} of {total} batches, scaled",
        }
    ]
    scorer = TreeScorer(model)
    seconds, scores = best(lambda: scorer.score_trie(scorer.prefill(prompt_ids), trie), repeats)
    law = exact_law(trie, scores, values)
    rows.append(
        {
            "case": case,
            "implementation": "packed",
            "seconds": seconds,
            "ratio": baseline / seconds,
            "positions": len(prompt_ids) + trie.num_prefixes - 1,
            "mass_on_trie": 1 - law.mass_off_trie,
        }
    )
    seconds, _ = best(lambda: exact_law(trie, scores, values), repeats)
    rows.append({"case": case, "implementation": "figures from the scores", "seconds": seconds})
    return rows


def _bounds_row(scorer: TreeScorer, prompt: Prompt, prompt_ids: list[int], digit_tokens, max_positions: int) -> dict:
    score = scorer.path_scorer(prompt_ids, candidate_tokens(digit_tokens))
    in_model = 0.0

    def timed(paths: list[tuple[int, ...]]) -> np.ndarray:
        nonlocal in_model
        started = time.perf_counter()
        result = score(paths)
        in_model += time.perf_counter() - started
        return result

    started = time.perf_counter()
    bounds = bound_number_law(prompt.law, digit_tokens, timed, max_positions=max_positions)
    seconds = time.perf_counter() - started
    return {
        "case": f"bounds, {prompt.family}",
        "implementation": "masked",
        "seconds": seconds,
        "positions": bounds.positions,
        "seconds_outside_the_model": seconds - in_model,
        "w1_low": bounds.wasserstein_1_low,
        "w1_high": bounds.wasserstein_1_high,
        "width": bounds.wasserstein_1_high - bounds.wasserstein_1_low,
    }


def run(
    *,
    max_bins: int = 1001,
    batches: int = 8,
    repeats: int = 3,
    max_positions: int = 2000,
    families: Sequence[str] = FAMILIES,
) -> list[dict]:
    """One row per measurement; see the module's docstring."""
    tokenizer, model = load_tokenizer(MODEL), load_model(MODEL, device="cpu")
    terminator = answer_terminator(tokenizer, MODEL.terminator)
    split = [*build_split("unseen", selection="selected"), *build_split("ood", selection="selected")]
    first = {prompt.family: prompt for prompt in reversed(split)}
    encoded = {
        family: encode_request(tokenizer, first[family].text, MODEL.chat.template_arguments)
        for family in {"gaussian", *families}
    }
    space = discretize(first["gaussian"].law, num_decimals=5, max_bins=max_bins)
    sequences = encode_answers(tokenizer, list(space.values))
    trie = build_trie(sequences, space.probabilities, terminator)
    values = np.empty(len(sequences))
    values[leaf_index(trie, sequences)] = [float(text) for text in space.values]
    rows = _trie_rows(model, encoded["gaussian"], trie, sequences, values, batches, repeats)
    digit_tokens, scorer = find_digit_tokens(tokenizer, terminator), TreeScorer(model)
    for family in families:
        rows.append(_bounds_row(scorer, first[family], encoded[family], digit_tokens, max_positions))
    return rows
