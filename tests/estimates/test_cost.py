"""The cost model: pieces worked out by hand, totals that the paper states, and runs that were recorded."""

import json
import statistics
from pathlib import Path

import pytest

from pipeline.config.params import validate
from pipeline.core.prompts.structured import build_split
from pipeline.dag.graph import StageGraph, piece_cost
from pipeline.estimates import cost
from pipeline.estimates.cost import Cost
from pipeline.estimates.prices import OTHER_REPLY_TOKENS, REPLY_TOKENS, SUMMARY_REQUEST_TOKENS, TEMPLATE_TOKENS, Prices
from pipeline.runs.plan import checkpoint_bytes
from pipeline.sources.pin import unpinned
from tests.composition import composed_params
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

BILLION = 10**9


def prices_of(*overrides: str, project: Path = ROOT) -> Prices:
    return Prices(validate(composed_params(*overrides)), project)


def test_estimated_tokens():
    # Generate 1, exactly 1, ONE 1, four marks and signs, digits one by one, "distribution" two.
    assert cost.estimate_tokens("mu=3.5, n") == 7
    assert cost.estimate_tokens("distribution of -12.25") == 2 + 1 + 1 + 5
    assert cost.estimate_tokens("") == 0


def test_paper_step_counts():
    assert cost.training_steps_of(1988, 1, 3, 32) == 189
    assert cost.training_steps_of(1988, 16, 2, 32) == 1988


def test_hours_by_hand():
    # 9.36e13 operations a second: 46.8 million tokens of a billion parameters take 9.36e16.
    assert cost.work_hours(BILLION, None, reading_token=46.8e6) == pytest.approx(1000 / 3600)
    # Twice as many operations, at 2.028e13 a second.
    assert cost.work_hours(BILLION, None, training_token=5.07e6) == pytest.approx(1000 / 3600)
    # 7 billion parameters are 14 GB: 10 ms at 1.4e12 bytes a second, and 25 ms besides.
    assert cost.work_hours(7 * BILLION, None, decoding_step=250) == pytest.approx(250 * 0.035 / 3600)
    assert cost.loading_hours(7 * BILLION) == pytest.approx((30 + 14) / 3600)
    assert Cost(1, 2, 3, 4) + Cost(10, 20, 30, 40) == Cost(11, 22, 33, 44)


def test_adapter_size_of_the_model_that_the_rule_is_taken_from():
    assert cost.adapter_bytes(8_190_000_000, 16, 4) == pytest.approx(61.2e6)
    assert cost.adapter_bytes(8_190_000_000, 8, 7) == pytest.approx(61.2e6 / 2 * 7 / 4)


def test_training_by_hand():
    """Packed completions share one copy of the prompt."""
    prompts = build_split("train")
    mean = TEMPLATE_TOKENS + statistics.fmean(cost.estimate_tokens(prompt.text) for prompt in prompts)
    for packed in (1, 4):
        prices = prices_of(
            "experiment=paper", "train.hard.samples_per_prompt=8", f"train.hard.completions_per_prompt={packed}"
        )
        found, examples = prices.training("qwen3_8b", "hard"), 2 * 1988 * 8 / packed
        assert found.prompt_tokens == pytest.approx(examples * mean)
        assert found.completion_tokens == examples * packed * 9
        steps, tokens = 2 * -(-1988 * 8 // packed // 32), found.prompt_tokens + found.completion_tokens
        seconds = steps * 0.4 + tokens * 4 * 8190735360 / 2.028e13
        assert found.gpu_hours == pytest.approx(seconds / 3600)


def test_memory_of_training_by_hand():
    # Eight of the longest prompts with a path of nine tokens each.
    longest = max(cost.estimate_tokens(prompt.text) for prompt in build_split("train"))
    tokens, size = 8 * (longest + TEMPLATE_TOKENS + 9), 8190735360
    for limit, width in (("null", tokens), ("256", 256)):
        # Rank 16: 15.3 million weights, their gradients and two moments in float32.
        by_hand = 2 * size + 16 * 15.3e6 + 2.5 * size ** (2 / 3) * width + 2**29
        prices = prices_of("experiment=paper", "axes=[structured,mcq]", f"train.tokens_per_pass={limit}")
        assert prices.training_memory("qwen3_8b") == pytest.approx(by_hand, rel=1e-3)


def hours_of(*overrides: str) -> dict[str, list[float]]:
    """GPU hours of the paper's experiment by stage or part, one entry per run."""
    # The paper scored PALOMA without BOS; ours does both.
    params = validate(composed_params("experiment=paper", "paloma.bos=[none]", *overrides))
    prices, hours = Prices(params, Path(ROOT)), {}
    for stage, row in (piece for node in StageGraph(params).values() for piece in node.pieces):
        hours.setdefault(stage.name, []).append(piece_cost(stage, row, prices).gpu_hours)
    return hours


@pytest.fixture(scope="module")
def paper_hours() -> dict[str, list[float]]:
    return hours_of()


@pytest.mark.parametrize(
    "stages, stated",
    [
        (("train-soft",), 2.6),
        (("train-hard",), 26.7),
        (("generate-structured", "score-structured"), 4.5),
        (("generate-open", "score-open"), 3.1),
        (("generate-mcq",), 17.6),
        (("score-retention",), 4.8),
        (("score-paloma",), 11.5),
        (("generate-novelty", "partition-novelty", "reward-novelty"), 194.0),
    ],
    ids=["soft", "hard", "structured", "open", "mcq", "retention", "paloma", "novelty"],
)
def test_totals_that_the_paper_states(paper_hours, stages, stated):
    """The docs say how far off each may be: training by 5%, an evaluation by a factor of 1.6."""
    ratio = sum(sum(paper_hours[stage]) for stage in stages) / stated
    assert abs(ratio - 1) < 0.05 if stages[0].startswith("train") else 1 / 1.6 < ratio < 1.6


@pytest.mark.parametrize("stage, least, median, most", [("train-soft", 0.7, 1.8, 14.9), ("train-hard", 6.5, 18.3, 155)])
def test_minutes_on_four_gpus_by_model(paper_hours, stage, least, median, most):
    """Two constants stand for twelve models; training is superlinear in the largest, by sharding or by experts."""
    minutes = [60 * hours / 4 for hours in paper_hours[stage]]
    assert min(minutes) == pytest.approx(least, rel=0.3) and max(minutes) == pytest.approx(most, rel=0.35)
    assert statistics.median(minutes) == pytest.approx(median, rel=0.05)


def test_what_changes_a_price(paper_hours):
    both = hours_of("paloma.bos=[model,none]", "train.hard.epochs=1", "generate.mcq.num_samples=500")
    assert sum(both["score-paloma"]) > 1.8 * sum(paper_hours["score-paloma"])
    assert sum(both["train-hard"]) == pytest.approx(sum(paper_hours["train-hard"]) / 2)
    assert sum(both["generate-mcq"]) == pytest.approx(sum(paper_hours["generate-mcq"]) / 2, rel=0.05)
    assert both["train-soft"] == paper_hours["train-soft"]
    assert not any(paper_hours["eval-structured"]) and not any(paper_hours["report"])


@pytest.mark.parametrize("method", ["soft", "hard", "anchored"])
@pytest.mark.parametrize(
    "experiment, adapters", [("laptop", "laptop/adapters"), ("laptop_longer", "laptop_longer/seed_0/adapters")]
)
def test_tokens_of_recorded_runs_within_a_factor_of_two(experiment, adapters, method):
    prices = prices_of(f"experiment={experiment}")
    record = json.loads((ROOT / "results" / adapters / "smollm2" / method / "provenance.json").read_text())
    planned = prices.training("smollm2", method)
    assert 0.5 < (planned.prompt_tokens + planned.completion_tokens) / record["tokens_read"] < 2


def write_rows(path: Path, rows: list[dict]) -> None:
    path.write_text("\n".join(map(json.dumps, rows)))


def test_instructions_are_counted_where_they_lie(tmp_path):
    rows = [{"prompt": f"Question {number} of a kind", "kind": "ab"[number % 2]} for number in range(16)]
    write_rows(tmp_path / "few.jsonl", rows)
    source = ("prompts.instructions.source=few.jsonl", "prompts.instructions.held_out_share=0.25")
    params = validate(composed_params("methods=anchored", *source))
    for axis, count in (("instructions", 12), ("anchors", 4)):
        settings = getattr(params.generate, axis)
        written = Prices(params, tmp_path).generation("embedded", axis, "base").completion_tokens
        assert written == count * settings.num_samples * min(OTHER_REPLY_TOKENS, settings.max_new_tokens)


@pytest.fixture
def questions(tmp_path) -> Path:
    rows = [{"prompt_id": f"q{number}", "prompt": "Name a pet.", "gold": ["dog"]} for number in range(5)]
    write_rows(tmp_path / "few.jsonl", rows)
    return tmp_path


def test_summaries_and_their_judge_are_priced(questions):
    overrides = ["prompts.questions.source=few.jsonl", "axes=[selfreflect]"]
    prices = prices_of(*overrides, project=questions)
    assert prices.generation("embedded", "selfreflect", "base").completion_tokens == 5 * 2 * REPLY_TOKENS["selfreflect"]
    cheap = prices.judged_words("embedded")
    assert cheap.prompt_tokens > 5 * 10 * 5 * SUMMARY_REQUEST_TOKENS
    # The judge's size counts, not that of the model whose summaries it reads.
    judged = validate(composed_params(*overrides, "+model@selfreflect.judge=qwen3_8b"))
    dear = Prices(judged, questions).judged_words("embedded")
    assert dear.prompt_tokens == cheap.prompt_tokens and dear.gpu_hours > cheap.gpu_hours
    assert checkpoint_bytes(judged) == 2 * judged.selfreflect.judge.num_parameters
    assert unpinned(judged) == ([] if judged.selfreflect.judge.revision else ["selfreflect.judge.revision"])


def test_questions_are_counted_with_their_decoding_settings(questions):
    params = validate(composed_params("prompts.questions.source=few.jsonl"))
    settings, perturbed = params.generate.questions, params.generate.perturbations
    prices = Prices(params, questions)
    bare = prices.generation("embedded", "questions", "base")
    each = min(REPLY_TOKENS["questions"], settings.max_new_tokens)
    assert bare.completion_tokens == 5 * settings.num_samples * (1 + len(settings.settings)) * each
    # Laws along the default setting's answers read each of them behind its question.
    asked = TEMPLATE_TOKENS + cost.estimate_tokens("Name a pet.")
    read = 5 * (asked + settings.num_samples * (asked + each))
    assert prices.question_steps("embedded").prompt_tokens == pytest.approx(read)
    # Each question and its perturbations.
    requests = 5 * (1 + params.prompts.perturbations.number)
    written = prices.generation("embedded", "perturbations", "base").completion_tokens
    assert written == requests * perturbed.num_samples * (1 + len(perturbed.settings)) * each
    # Replies in a style are taken to be as long as they may be.
    style = "{template:'In a word: {prompt}',read:first_line,mark:null,max_new_tokens:40}"
    overrides = ("prompts.questions.source=few.jsonl", f"+generate.questions.styles.word={style}")
    styled = prices_of(*overrides, project=questions).generation("embedded", "questions", "base")
    assert styled.completion_tokens == pytest.approx(bare.completion_tokens + 5 * settings.num_samples * 40)
    assert styled.prompt_tokens == pytest.approx(2 * bare.prompt_tokens)
