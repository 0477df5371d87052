"""Which wrong engines the preflight's law checks would notice, by the requests that they ask.

On the embedded model. ``first request`` is the first one of a held-out family, Bernoulli with p = 0.1, to which the
model nearly always answers 0; ``most random`` are the requests that the preflight chooses. Two checks of each request
(answers of one and of two tokens), 2,000 samples each, one chance in 10,000 to refuse a sound engine.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.workload import MODEL
from pipeline.compose import compose_params
from pipeline.config.params import validate
from pipeline.core.prompts.structured import build_split
from pipeline.engines.loading.conditioned_model import message_encoder
from pipeline.engines.loading.model import load_model, load_tokenizer, stop_ids
from pipeline.engines.sampling.preflight import trial_adapter
from pipeline.engines.sampling.preflight_law import (
    LAW_TOKENS,
    WRONG_SAMPLERS,
    ChatRequest,
    LawCheck,
    answer_laws,
    most_random,
    nucleus,
    power,
    sharpened,
)
from pipeline.sources.open_prompts import read_open_prompts

SAMPLERS = WRONG_SAMPLERS | {
    "top_p 0.98": nucleus(0.98),
    "top_p 0.99": nucleus(0.99),
    "temperature 0.9": sharpened(0.9),
    "temperature 0.95": sharpened(0.95),
    "temperature 0.1 and top_p 0.1": lambda law: nucleus(0.1)(sharpened(0.1)(law)),
}


def run(samplers: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = SAMPLERS) -> list[dict[str, Any]]:
    """Power by wrong engine, before and after; ``sound`` must be below 0.0001 or so."""
    config = validate(compose_params(Path("conf"), []))
    tokenizer, model = load_tokenizer(MODEL), load_model(MODEL, device="cpu")
    stops, encode = stop_ids(model, tokenizer, MODEL.terminator), message_encoder(tokenizer, MODEL)

    def requests(prompts: Sequence[Any]) -> list[ChatRequest]:
        chats = [[{"role": "user", "content": prompt.text}] for prompt in prompts]
        return [ChatRequest(p.prompt_id, encode(chat, False), chat) for p, chat in zip(prompts, chats, strict=True)]

    wanted = config.prompts
    structured = [
        prompt
        for split, selection in (("unseen", wanted.unseen_selection), ("ood", wanted.ood_selection))
        for prompt in build_split(split, selection=selection, families=wanted.families, seed=config.seed)
    ]
    first = requests([next(prompt for prompt in structured if prompt.split == "ood")])
    kinds = (requests(structured), requests(read_open_prompts(wanted.open.source)))
    chosen = [request for kind in kinds for request in most_random(model, kind, 2)]
    # The adapter is added last: its layers stay in the model.
    laws = {
        (request.key, count): answer_laws(
            model,
            tokenizer,
            request.prompt_ids,
            stops,
            count,
            list(samplers.values()),
            [request.prompt_ids[len(request.prompt_ids) // 2 :]],
        )
        for request in (*first, *chosen)
        for count in LAW_TOKENS
    }
    adapted = trial_adapter(model, MODEL, config.train, config.seed)
    names = [*samplers, "half of the request missing", "a random adapter"]

    def checks(asked: Sequence[ChatRequest]) -> list[LawCheck]:
        found = []
        for request in asked:
            for count in LAW_TOKENS:
                own, *wrong = laws[request.key, count]
                wrong += answer_laws(adapted, tokenizer, request.prompt_ids, stops, count)
                named = zip(["sound", *names], [own, *wrong], strict=True)
                found.append(LawCheck.of(request, count, own, dict(named)))
        return found

    before, after = power(checks(first), 0), power(checks(chosen), 0)
    return [
        {"case": name, "first request": f"{before[name]:.3f}", "most random": f"{after[name]:.3f}"} for name in before
    ]
