"""What the tests of all engines share: an adapter, a request, and the exact law of two-token answers."""

from collections import Counter

import torch

from pipeline.core.statistics.law_check import LawCells
from pipeline.engines.sampling.text_engine import SampleRequest
from tests.reference_sampler import next_log_probabilities

PROMPT_TEXT = "Generate exactly ONE random number."
# Those of the tiny model's configuration.
TEMPLATE_ARGUMENTS = {"enable_thinking": False}


def save_adapter(model_config, directory, scale=0.5):
    """A LoRA adapter of rank 2 with weights that show."""
    from pipeline.engines.loading.model import add_lora, load_model

    torch.manual_seed(3)
    adapted = add_lora(load_model(model_config, device="cpu"), model_config, rank=2, alpha=4, dropout=0.0)
    for name, weights in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weights.data, std=scale)
    adapted.save_pretrained(directory)
    return directory


def make_request(tokenizer, seeds, key="p", text=PROMPT_TEXT, **changes):
    """A request for the samples ``seeds`` (an int: that many samples)."""
    from pipeline.engines.loading.chat import encode_messages

    messages = [{"role": "user", "content": text}]
    seeds = {index: 1000 * index + 7 for index in range(seeds)} if isinstance(seeds, int) else seeds
    settings = {"max_new_tokens": 2} | changes
    return SampleRequest(key, encode_messages(tokenizer, messages, TEMPLATE_ARGUMENTS), seeds, **settings)


def collect(engine, requests):
    """Generations by key and sample index; every sample exactly once."""
    found = {}
    for group in engine.sample(requests):
        for sample in group:
            assert (sample.key, sample.sample_index) not in found
            found[sample.key, sample.sample_index] = sample.generation
    return found


@torch.inference_mode()
def two_token_law(model, tokenizer, request, stop_ids):
    """Probability of (text, num_tokens, finish_reason) by enumeration of all pairs of tokens."""
    law = Counter()
    first = next_log_probabilities(model, request.prompt_ids).exp()
    rows = torch.tensor([[*request.prompt_ids, token] for token in range(len(first))])
    for token, logits in enumerate(model(input_ids=rows).logits[:, -1].double()):
        if token in stop_ids:
            law["", 1, "stop"] += float(first[token])
            continue
        second = logits.softmax(-1) * first[token]
        for last, probability in enumerate(second.tolist()):
            stops = last in stop_ids
            kept = [token] if stops else [token, last]
            law[tokenizer.decode(kept, skip_special_tokens=True), 2, "stop" if stops else "length"] += probability
    return law


def follows(generations, law):
    """p-value of the generations under the law (Pearson's chi-square)."""
    counts = Counter((answer.text, answer.num_tokens, answer.finish_reason) for answer in generations)
    assert set(counts) <= set(law)
    return LawCells(law, counts.total()).p_value(counts)
