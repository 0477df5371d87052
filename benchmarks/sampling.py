"""Answers of a model: ours, and transformers' ``generate`` with ``num_return_sequences``; 64 rows at a time in both."""

import gc
import time
from dataclasses import dataclass, replace
from functools import partial

import torch
from peft import PeftModel
from transformers import PreTrainedTokenizerBase

from benchmarks.checkpoints import parameters, plain_model
from benchmarks.gpu.cases import forward_flops
from benchmarks.gpu.engines import PlainGenerate
from benchmarks.measure import Case, Measured, Row, Turn, against_plain, counted, matmul_rate, summary
from pipeline import PROJECT
from pipeline.core.prompts.open_ended import open_prompts
from pipeline.core.prompts.structured import build_split, make_prompt
from pipeline.engines.loading.chat import request_encoder
from pipeline.engines.loading.conditioned_model import load_adapter
from pipeline.engines.loading.model import load_model, load_tokenizer, stop_ids
from pipeline.engines.sampling.generate import sample_seeds
from pipeline.engines.sampling.text_engine import SampleRequest, TextEngine
from pipeline.engines.sampling.transformers_engine import TransformersEngine

ROWS, MAX_NEW_TOKENS = 64, 16
ADAPTER = PROJECT / "results/laptop_longer/adapter"


@dataclass(frozen=True)
class Answers:
    """So many answers to each of some requests."""

    model: str
    texts: tuple[str, ...]
    number: int
    adapted: bool = False

    def requests(self, tokenizer: PreTrainedTokenizerBase) -> list[SampleRequest]:
        """Their requests; each answer has a seed of its own."""
        encode = request_encoder(tokenizer, parameters().models[self.model])
        return [
            SampleRequest(text, encode(text), dict(enumerate(sample_seeds(0, (text,), self.number))), MAX_NEW_TOKENS)
            for text in self.texts
        ]


def _draw(turn: Turn, engine: TextEngine, model: torch.nn.Module, requests: list[SampleRequest]) -> None:
    """Draw all answers in every turn; the first result is of a few answers to the first request."""
    drawn = [replace(requests[0], seeds=dict(list(requests[0].seeds.items())[:8]))]
    while True:
        gc.collect()
        started = time.monotonic()
        with counted(model) as cost:
            samples = [sample for part in engine.sample(drawn) for sample in part]
        seconds, run = time.monotonic() - started, cost.positions
        prompts = sum(len(request.prompt_ids) for request in drawn)
        attended = run * (prompts // len(drawn) + MAX_NEW_TOKENS // 2)
        flops = forward_flops(model, run, run - prompts + len(drawn), attended)
        distinct = len({(sample.key, sample.generation.text) for sample in samples})
        figures = {"seconds": seconds, "tokens": run, "flops": flops, "note": f"distinct answers: {distinct:,}"}
        turn(figures | {"rate": matmul_rate("float32")})
        drawn = requests


def plain(turn: Turn, answers: Answers) -> None:
    """Batches of ``generate``."""
    config, model = parameters().models[answers.model], plain_model(answers.model)
    tokenizer = load_tokenizer(config)
    stops = stop_ids(model, tokenizer, config.terminator)
    model = PeftModel.from_pretrained(model, ADAPTER).eval() if answers.adapted else model.eval()
    _draw(turn, PlainGenerate(model, ROWS, tokenizer, sorted(stops)), model, answers.requests(tokenizer))


def ours(turn: Turn, answers: Answers) -> None:
    """The pipeline's engine."""
    config = parameters().models[answers.model]
    model, tokenizer = load_model(config, device="cpu"), load_tokenizer(config)
    requests, stops = answers.requests(tokenizer), stop_ids(model, tokenizer, config.terminator)
    model = load_adapter(model, ADAPTER, requests[0].prompt_ids) if answers.adapted else model
    _draw(turn, TransformersEngine(model, tokenizer, stops, ROWS), model, requests)


def compare(answers: Answers, repeats: int) -> list[Row]:
    """Rows of ``generate``, ours, and the limit of the tokens that ours runs."""
    return summary(against_plain(__name__, repeats, answers=answers))


def cases() -> Measured:
    """What is measured."""
    structured = [*build_split("unseen", selection="selected"), *build_split("ood", selection="selected")]
    spread = tuple(prompt.text for prompt in structured[:: len(structured) // 4])[:4]
    open_texts = tuple(prompt.text for prompt in open_prompts()[:16])
    poisson = make_prompt("poisson", {"lambda": 4.0}, "").text
    for name, answers in {
        "1,024 answers to 16 open requests": Answers("smollm2", open_texts, 64),
        "256 answers to a Poisson request, adapter": Answers("smollm2", (poisson,), 256, adapted=True),
        "4,000 answers to 4 structured requests": Answers("embedded", spread, 1_000),
    }.items():
        yield Case("sampling", name, answers.model, "float32"), partial(compare, answers)
