"""How far an adapter is from the requested laws while it trains: a few answers to a few of its own prompts."""

from collections.abc import Callable, Sequence

import numpy as np
from peft import PeftModel
from transformers import PreTrainedTokenizerBase

from pipeline.axes.structured.pit import count_invalid_as_one, pit_wasserstein_1, randomised_pit
from pipeline.axes.structured.wasserstein import evaluate_prompt
from pipeline.core.laws.family import Law
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream
from pipeline.engines.sampling.generate import sample_seeds
from pipeline.engines.sampling.text_engine import SampleRequest
from pipeline.engines.sampling.transformers_engine import TransformersEngine

NUM_PROMPTS, NUM_ANSWERS, NUM_TIMES = 8, 32, 10
MAX_NEW_TOKENS = 24


def distance_while_training(
    model: PeftModel,
    tokenizer: PreTrainedTokenizerBase,
    stop_ids: set[int],
    prompts: Sequence[Prompt],
    encode: Callable[[str], list[int]],
    num_steps: int,
    seed: int,
) -> Callable[[int], dict[str, float]]:
    """A function of the number of steps done that gives, some NUM_TIMES in a training and on the same random numbers
    each time, ``pit_wasserstein_1_all_answers``: a mean over prompts of named families, nothing without any."""
    named = [prompt for prompt in prompts if isinstance(prompt.law, Law)]
    chosen = named[:: max(len(named) // NUM_PROMPTS, 1)][:NUM_PROMPTS]
    engine = TransformersEngine(model, tokenizer, stop_ids, NUM_PROMPTS * NUM_ANSWERS)
    requests = []
    for prompt in chosen:
        seeds = sample_seeds(seed, ("training", prompt.prompt_id), NUM_ANSWERS)
        requests.append(SampleRequest(prompt.prompt_id, encode(prompt.text), dict(enumerate(seeds)), MAX_NEW_TOKENS))

    def distance(prompt: Prompt, texts: Sequence[str]) -> float:
        answers = evaluate_prompt(texts, prompt.law)
        rng = random_stream(seed, "pit", "training", prompt.prompt_id)
        pits = np.sort(randomised_pit(prompt.law, answers.samples, answers.decimals, rng))
        return count_invalid_as_one(float(pit_wasserstein_1(pits[None])[0]), answers.valid_rate)

    def measure(steps: int) -> dict[str, float]:
        if not chosen or steps % max(num_steps // NUM_TIMES, 1):
            return {}
        model.eval()
        drawn = [sample for samples in engine.sample(requests) for sample in samples]
        model.train()
        texts = [[each.generation.text for each in drawn if each.key == prompt.prompt_id] for prompt in chosen]
        return {"pit_wasserstein_1_all_answers": float(np.mean(list(map(distance, chosen, texts))))}

    return measure
