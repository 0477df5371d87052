"""Time answers to questions under several decoding settings, and the sets of their laws.

Sampling: all settings in one call, which runs a question and every prefix of its answers once, against a call for each
setting; both must give the same. Sets of laws: the distances of people's laws from them, and entropies.
"""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import best, counted
from benchmarks.workload import MODEL
from pipeline.artifacts.json_lines import read_json_lines
from pipeline.axes.credal.evaluate import entropy_bounds, hull_distance
from pipeline.engines.loading.chat import encode_request
from pipeline.engines.loading.model import load_model, load_tokenizer, stop_ids
from pipeline.engines.sampling.generate import Generation, generate_prompts, sample_seeds
from pipeline.engines.sampling.samplers import SamplingLaw

QUESTIONS = Path(__file__).parents[1] / "data" / "questions.jsonl"
SETTINGS = (
    SamplingLaw(1.0, 1.0, None),
    SamplingLaw(0.7, 1.0, None),
    SamplingLaw(1.2, 1.0, None),
    SamplingLaw(1.0, 0.9, None),
    SamplingLaw(1.0, 0.95, None),
    SamplingLaw(1.0, 1.0, 40),
)
"""The section's own and five further decoding settings."""
CLASSES = 8
"""Classes of answers of the sets of laws, people's OTHER included."""
Answers = dict[tuple[int, int], Generation]
"""By the place of the request and the sample's index."""


def _row(case: str, implementation: str, seconds: float, plain: float, **more: Any) -> dict[str, Any]:
    return {
        "case": case,
        "implementation": implementation,
        "seconds": seconds,
        "ratio": plain / seconds,
        **more,
    }


def sampling_rows(questions: int, samples: int, repeats: int, device: str | None) -> list[dict[str, Any]]:
    """One row for a call per setting and one for all settings in one call."""
    model, tokenizer = load_model(MODEL, device=device), load_tokenizer(MODEL)
    rows = read_json_lines(QUESTIONS, ("prompt_id", "prompt"))[:questions]
    encoded = [encode_request(tokenizer, row["prompt"], MODEL.chat.template_arguments) for row in rows]
    # Questions under the first setting, then under the next, as a call for each takes them.
    laws = [law for law in SETTINGS for _ in encoded]
    names = [(row["prompt_id"], str(place)) for place in range(len(SETTINGS)) for row in rows]
    seeds = [sample_seeds(0, ("benchmark", *name), samples) for name in names]
    stops = stop_ids(model, tokenizer, MODEL.terminator)

    def sampled(places: range) -> Answers:
        of_laws = zip(*(laws[place] for place in places), strict=True)
        stream = generate_prompts(
            model,
            tokenizer,
            [encoded[place % len(encoded)] for place in places],
            [seeds[place] for place in places],
            stop_ids=stops,
            max_new_tokens=16,
            batch_size=250,
            **dict(zip(("temperature", "top_p", "top_k"), of_laws, strict=True)),
        )
        return {(places[place], index): answer for found in stream for place, index, answer in found}

    def apart() -> Answers:
        calls = (range(start, start + len(encoded)) for start in range(0, len(laws), len(encoded)))
        return {key: answer for places in calls for key, answer in sampled(places).items()}

    ways = {"a call for each setting": apart, "one call": lambda: sampled(range(len(laws)))}
    # The first calls of a shape are slower.
    sampled(range(2))
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    costs, answers = {}, {}
    for _ in range(repeats):
        for name, way in ways.items():
            with counted(model) as costs[name]:
                taken, answers[name] = best(way, 1)
            seconds[name].append(taken)
    first = next(iter(ways))
    case = f"{len(encoded)} questions, {len(SETTINGS)} settings, {samples} samples"
    return [
        _row(
            case,
            name,
            min(seconds[name]),
            min(seconds[first]),
            positions=costs[name].positions,
            forward_passes=costs[name].forward_passes,
            different=sum(answers[first][key] != answer for key, answer in answers[name].items()),
        )
        for name in ways
    ]


def credal_rows(prompts: int) -> list[dict[str, Any]]:
    """Rows of the linear programmes and of the entropies of the sets."""
    rng = np.random.default_rng(0)
    members = [rng.dirichlet(np.full(CLASSES, 0.5), size=len(SETTINGS)) for _ in range(prompts)]
    people = list(rng.dirichlet(np.full(CLASSES, 0.5), size=prompts))

    case = f"{prompts:,} questions, {len(SETTINGS)} laws of {CLASSES} classes"
    distances, _ = best(lambda: [hull_distance(own, law) for own, law in zip(members, people, strict=True)], 1)
    entropies, _ = best(lambda: [entropy_bounds(own) for own in members], 1)
    return [
        {**_row(f"{case}: distances", "a linear programme each", distances, distances), "ratio": None},
        {**_row(f"{case}: entropies", "least and largest", entropies, entropies), "ratio": None},
    ]


def run(
    questions: int = 52, samples: int = 50, repeats: int = 2, prompts: int = 1000, device: str | None = None
) -> list[dict[str, Any]]:
    """Time both on the embedded model; of sampling the fastest of ``repeats`` interleaved runs counts.

    Args:
        questions: Those of the shipped set that are asked, as many as ProtoQA's development set has.
        samples: Answers to a question under each setting.
        repeats: Runs of each way to sample.
        prompts: Sets of laws.
        device: Where the model runs; None takes a GPU where there is one.

    Returns:
        Rows with case, implementation, seconds, and ratio, the first implementation's seconds over this one's; of
        sampling also positions (tokens that the model ran), forward_passes, and different, the answers that are not
        those of a call for each setting, which only rounding can cause.
    """
    return [*sampling_rows(questions, samples, repeats, device), *credal_rows(prompts)]
