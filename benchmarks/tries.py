"""Output spaces and tries of all training prompts against the obvious implementation.

The baseline evaluates SciPy law by law, formats every value, tokenizes every string and
keeps a dictionary from prefix tuples to next-token masses. It runs on a sample of the
prompts and its figures are scaled to all of them, because the whole would need up to half
an hour and 30 GB.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from benchmarks.measure import Case, Figures, Measured, Row, in_subprocess, summary
from pipeline.core.laws.discretize import discretize_all
from pipeline.core.prompts.structured import build_split
from pipeline.core.tries.number_keys import pack_numbers
from pipeline.engines.loading.digit_rule import find_digit_tokens, tries_of

NUM_DECIMALS, MANY_BINS = 5, 16_384


def tokenizer_of(max_group: int):
    """A fast byte-pair tokenizer whose numbers are single digits or groups of up to three from the left."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    groups = [f"{value:0{size}d}" for size in range(1, max_group + 1) for value in range(10**size)]
    vocabulary = {word: index for index, word in enumerate(["</s>", "-", ".", *groups])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="</s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(rf"\d{{1,{max_group}}}|-|\."), "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


def warm_up() -> None:
    """Import and load everything that either implementation uses."""
    for max_group in (1, 3):
        baseline(100, max_group, every=500)
    spaces = dict(enumerate(discretize_all([build_split("train")[0].law], num_decimals=NUM_DECIMALS, max_bins=100)))
    tokenizer = tokenizer_of(1)
    rule = find_digit_tokens(tokenizer, tokenizer.eos_token_id, NUM_DECIMALS)
    dict(tries_of(tokenizer, rule, tokenizer.eos_token_id, spaces))


def prefix_laws(strings: Sequence[Sequence[int]], masses: Sequence[float]) -> dict[tuple[int, ...], dict[int, float]]:
    """The next-token law after every prefix of token sequences (terminator last) with these masses."""
    trie: dict[tuple, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for path, mass in zip(strings, masses, strict=True):
        for k, token in enumerate(path if mass > 0 else ()):
            trie[tuple(path[:k])][token] += mass
    totals = {prefix: sum(children.values()) for prefix, children in trie.items()}
    return {
        prefix: {token: mass / totals[prefix] for token, mass in children.items()} for prefix, children in trie.items()
    }


def baseline(max_bins: int, max_group: int, every: int) -> dict:
    """The obvious implementation on every ``every``-th training prompt."""
    laws = [prompt.law for prompt in build_split("train")][::every]
    tokenizer = tokenizer_of(max_group)
    tries = []
    for law in laws:
        frozen = law.freeze()
        low, high = (float(frozen.ppf(level)) for level in (0.001, 0.999))
        if law.integer:
            ends = frozen.support()
            first, last = (
                int(end if np.isfinite(end) else bound) for end, bound in zip(ends, (low, high), strict=True)
            )
            numbers = list(range(first, min(last, first + max_bins - 1) + 1))
            masses = [float(frozen.pmf(number)) for number in numbers]
            masses[-1] += float(frozen.sf(numbers[-1]))
            texts = [str(number) for number in numbers]
        else:
            first, last = int(np.ceil(low * 10**NUM_DECIMALS - 1e-6)), int(np.floor(high * 10**NUM_DECIMALS + 1e-6))
            size = last - first + 1
            kept = range(size) if size <= max_bins else np.linspace(0, size - 1, max_bins).astype(int).tolist()
            numbers = [(first + index) / 10**NUM_DECIMALS for index in kept]
            edges = [-np.inf, *((a + b) / 2 for a, b in pairwise(numbers)), np.inf]
            cumulative = frozen.cdf(edges)
            masses = np.diff(cumulative).tolist()
            texts = [f"{number:.{NUM_DECIMALS}f}" for number in numbers]
        strings = [[*ids, tokenizer.eos_token_id] for ids in tokenizer(texts)["input_ids"]]
        tries.append(prefix_laws(strings, masses))
    return {"prompts": len(laws), "keep": tries, "num_edges": sum(len(c) for t in tries for c in t.values())}


def ours(max_bins: int, max_group: int) -> dict:
    """All training prompts, the digit rule found and verified in the time."""
    laws = [prompt.law for prompt in build_split("train")]
    tokenizer = tokenizer_of(max_group)
    spaces = dict(enumerate(discretize_all(laws, num_decimals=NUM_DECIMALS, max_bins=max_bins)))
    rule = find_digit_tokens(tokenizer, tokenizer.eos_token_id, NUM_DECIMALS)
    tries = dict(tries_of(tokenizer, rule, tokenizer.eos_token_id, spaces))
    return {"prompts": len(laws), "keep": (spaces, tries), "num_edges": sum(t.num_edges for t in tries.values())}


def token_ids(repeats: int) -> list[Row]:
    """Token ids of one prompt's strings: the tokenizer against digit arithmetic (trie included in neither)."""
    (space,) = discretize_all([build_split("train")[0].law], num_decimals=NUM_DECIMALS, max_bins=MANY_BINS)
    tokenizer = tokenizer_of(1)
    rule = find_digit_tokens(tokenizer, tokenizer.eos_token_id, NUM_DECIMALS)
    calls = {"tokenizer": lambda: tokenizer(list(space.values)), "ours": lambda: pack_numbers([space.values], rule)}
    found: dict[str, list[Figures]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, function in calls.items():
            started = time.perf_counter()
            function()
            found[name].append({"seconds": time.perf_counter() - started})
    return summary(found)


def compare(max_bins: int, max_group: int, every: int, repeats: int) -> list[Row]:
    """Seconds and memory of all training prompts, once whatever ``repeats``."""
    plain = in_subprocess(__name__, "baseline", max_bins=max_bins, max_group=max_group, every=every)
    fast = in_subprocess(__name__, "ours", max_bins=max_bins, max_group=max_group)
    scale = fast["num_edges"] / plain["num_edges"]
    note = f"measured on {plain['prompts']} prompts, scaled by the number of edges"
    scaled = {"seconds": plain["seconds"] * scale, "retained_mb": plain["retained_mb"] * scale, "note": note}
    return summary({"dictionary": [scaled], "ours": [fast | {"note": f"{fast['num_edges']:,} edges"}]})


def cases() -> Measured:
    """What is measured."""
    yield Case("tries", f"token ids of {MANY_BINS:,} strings"), token_ids
    for max_bins, every in ((1_001, 50), (MANY_BINS, 400)):
        for max_group in (1, 3):
            tokens = "single digits" if max_group == 1 else "three-digit groups"
            case = Case("tries", f"tries of all prompts, {max_bins:,} bins, {tokens}")
            yield case, partial(compare, max_bins, max_group, every)
