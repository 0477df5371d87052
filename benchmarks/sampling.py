"""Time sampling many answers of one prompt: plain batches and merged rows.

Both draw with the same uniform numbers and must give the same answers. Positions are
the tokens that the model ran.
"""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import counted
from pipeline.config.params import load_params
from pipeline.core.prompts.structured import Prompt, build_split
from pipeline.core.sampling import sample_tokens
from pipeline.engines.loading.chat import encode_request
from pipeline.engines.loading.conditioned_model import load_adapter
from pipeline.engines.loading.model import load_model, load_tokenizer, stop_ids
from pipeline.engines.sampling.generate import Generation, generate, sample_seeds

ROOT = Path(__file__).resolve().parents[1]
PLAIN_BATCH = 16


@torch.inference_mode()
def generate_plain(
    model: torch.nn.Module,
    tokenizer: Any,
    prompt_ids: Sequence[int],
    seeds: Sequence[int],
    *,
    stop_ids: set[int],
    max_new_tokens: int,
    temperature: float,
    top_p: float,
) -> list[Generation]:
    """What ``generate`` gives, the obvious way: batches of 16 identical requests.

    Every batch runs the prompt in each of its rows and decodes until its last row has
    finished. Arguments as for ``generate``.
    """
    device = next(model.parameters()).device
    results = []
    for start in range(0, len(seeds), PLAIN_BATCH):
        chunk = seeds[start : start + PLAIN_BATCH]
        uniforms = np.stack([np.random.Generator(np.random.Philox(seed)).random(max_new_tokens) for seed in chunk])
        uniforms = torch.from_numpy(uniforms).to(device)
        inputs, cache = torch.tensor([list(prompt_ids)] * len(chunk), device=device), None
        rows: list[list[int]] = [[] for _ in chunk]
        done = [False] * len(chunk)
        for step in range(max_new_tokens):
            output = model(input_ids=inputs, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache = output.past_key_values
            chosen = sample_tokens(output.logits[:, -1], uniforms[:, step], temperature, top_p)
            for row, token in enumerate(chosen.tolist()):
                if not done[row]:
                    rows[row].append(token)
                    done[row] = token in stop_ids
            if all(done):
                break
            inputs = chosen[:, None]
        for seed, tokens in zip(chunk, rows, strict=True):
            stopped = tokens[-1] in stop_ids
            text = tokenizer.decode(tokens[:-1] if stopped else tokens, skip_special_tokens=True)
            results.append(Generation(seed, text, len(tokens), "stop" if stopped else "length"))
    return results


@dataclass
class _Timing:
    """Repeats of one implementation on one prompt."""

    seconds: list[float] = field(default_factory=list)
    positions: int = 0
    forward_passes: int = 0
    answers: list[Generation] = field(default_factory=list)

    def measure(self, model: torch.nn.Module, call: Callable[[], list[Generation]]) -> None:
        """Run once more."""
        gc.collect()
        started = time.perf_counter()
        with counted(model) as cost:
            self.answers = call()
        self.seconds.append(time.perf_counter() - started)
        self.positions, self.forward_passes = cost.positions, cost.forward_passes


def evaluation_prompts(count: int) -> list[Prompt]:
    """``count`` prompts spread evenly over the evaluation prompts of both splits."""
    prompts = [*build_split("unseen", selection="selected"), *build_split("ood", selection="selected")]
    chosen = np.unique(np.linspace(0, len(prompts) - 1, count).round().astype(int))
    return [prompts[index] for index in chosen]


def run(
    samples: int = 1000, prompts: int = 4, repeats: int = 2, batch_size: int = 500, adapter: Path | None = None
) -> list[dict[str, Any]]:
    """Time both implementations on the embedded model; the fastest of ``repeats`` interleaved runs counts."""
    config = load_params(ROOT / "params.yaml")
    model_config, settings = config.models["embedded"], config.generate.structured
    model, tokenizer = load_model(model_config), load_tokenizer(model_config)
    chat = model_config.chat
    stops = stop_ids(model, tokenizer, model_config.terminator)
    encoded = {
        prompt.prompt_id: encode_request(tokenizer, prompt.text, chat.template_arguments, chat.answer_prefix)
        for prompt in evaluation_prompts(prompts)
    }
    if adapter is not None:
        model = load_adapter(model, adapter, next(iter(encoded.values())))
    arguments = {
        "stop_ids": stops,
        "max_new_tokens": settings.max_new_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
    }
    implementations: dict[str, Callable[..., list[Generation]]] = {
        "plain": generate_plain,
        "merged": lambda *given, **named: generate(*given, batch_size=batch_size, **named),
    }
    timings: dict[str, dict[str, _Timing]] = {}
    for prompt_id, ids in encoded.items():
        seeds = sample_seeds(config.seed, ("benchmark", prompt_id), samples)
        timings[prompt_id] = case = {name: _Timing() for name in implementations}
        for function in implementations.values():
            # The first calls of a shape are slower.
            function(model, tokenizer, ids, seeds[:PLAIN_BATCH], **arguments)
        for _ in range(repeats):
            for name, function in implementations.items():
                case[name].measure(
                    model,
                    lambda function=function, ids=ids, seeds=seeds: function(model, tokenizer, ids, seeds, **arguments),
                )
    rows = [_row(name, case, samples, [timings[name]]) for name in timings for case in implementations]
    return rows + [_row("all", case, samples, list(timings.values())) for case in implementations]


def _row(case: str, implementation: str, samples: int, timings: list[dict[str, _Timing]]) -> dict[str, Any]:
    seconds = sum(min(timing[implementation].seconds) for timing in timings)
    plain = sum(min(timing["plain"].seconds) for timing in timings)
    pairs = [pair for t in timings for pair in zip(t[implementation].answers, t["plain"].answers, strict=True)]
    return {
        "case": case,
        "implementation": implementation,
        "seconds": seconds,
        "ratio": plain / seconds,
        "samples_per_second": samples * len(timings) / seconds,
        "positions": sum(timing[implementation].positions for timing in timings),
        "forward_passes": sum(timing[implementation].forward_passes for timing in timings),
        "distinct_answers": sum(len({answer.text for answer in t[implementation].answers}) for t in timings),
        "different": sum(found != expected for found, expected in pairs),
    }
