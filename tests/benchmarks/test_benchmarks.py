"""What a benchmark compares computes the same, and what was measured is kept."""

import numpy as np
import pytest

from benchmarks import training, tries
from benchmarks.measure import Case, summary
from benchmarks.results import FIGURE, PAGE, Results
from pipeline.core.laws.discretize import discretize_all
from pipeline.core.prompts.structured import build_split
from pipeline.engines.loading.digit_rule import find_digit_tokens, tries_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("max_group", [1, 3])
def test_the_dictionary_of_tuples_holds_the_same_targets(max_group):
    expected = tries.baseline(51, max_group, every=97)["keep"]
    tokenizer = tries.tokenizer_of(max_group)
    laws = [prompt.law for prompt in build_split("train")][::97]
    spaces = dict(enumerate(discretize_all(laws, num_decimals=tries.NUM_DECIMALS, max_bins=51)))
    rule = find_digit_tokens(tokenizer, tokenizer.eos_token_id, tries.NUM_DECIMALS)
    for (index, trie), targets in zip(tries_of(tokenizer, rule, tokenizer.eos_token_id, spaces), expected, strict=True):
        assert trie.num_prefixes == len(targets), laws[index]
        for prefix, children in targets.items():
            tokens, probabilities = trie.next_tokens(prefix)
            assert tokens.tolist() == sorted(children)
            np.testing.assert_allclose(probabilities, [children[token] for token in tokens.tolist()], atol=1e-9)


@pytest.mark.parametrize("method", ["soft", "hard"])
def test_plain_peft_takes_the_same_steps(method):
    plain, ours = [], []
    # So many rows that the plain implementation needs two passes.
    step = training.Step("embedded", method, paths=3)
    assert training.PROMPTS * step.paths > training.PLAIN_ROWS
    training.plain(plain.append, step, steps=3)
    training.ours(ours.append, step, steps=3)
    training.check_equal(plain, ours, 1e-4)
    assert len({round(figures["loss"], 3) for figures in ours}) == 3
    with pytest.raises(RuntimeError):
        training.check_equal(plain, [ours[0], ours[1] | {"grad_norm": ours[1]["grad_norm"] * 1.001}, ours[2]], 1e-4)


def test_results_are_kept_by_commit_and_shown_on_the_page(tmp_path):
    page = tmp_path / PAGE
    page.parent.mkdir()
    page.write_text("before\n<!-- measured -->\nold\n<!-- end -->\nbehind\n")
    first, second = (Case("training", f"soft step, {paths} paths", "m", "float32", paths) for paths in ("2", "4"))
    found = {name: [{"seconds": seconds}] * 2 for name, seconds in {"plain": 3.0, "ours": 1.5, "limit": 1.0}.items()}
    results = Results(tmp_path, "c1")
    for case in (first, second, first):
        results.replace(case, summary(found), load=0.0)
    again = Results(tmp_path, "c1")
    assert [row["paths"] for row in again.rows] == ["2"] * 3 + ["4"] * 3
    assert again.has(first) and not Results(tmp_path, "c2").has(first) and not Results(tmp_path, "c1+").has(first)
    text = page.read_text()
    assert text.startswith("before\n<!-- measured -->\n") and text.endswith("<!-- end -->\nbehind\n")
    assert "| soft step, 2 paths | m | 3 [3, 3] | 1.5 [1.5, 1.5] | 1 [1, 1] | 2 |" in text and "old" not in text
    assert (tmp_path / FIGURE).stat().st_size > 10_000
