"""Check, before anything costly runs, that a model and the configured engine do what the experiment counts on.

Stops with one sentence if the request has a wrong BOS token, the model's turn ends with another token than the
answer terminator, a number does not survive the tokenizer, decoding does not stop, a random adapter changes nothing
or merges wrongly, or what the engine samples is not the model's softmax at temperature 1.
"""

import gc
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pipeline.artifacts.model_report import checkpoint_identity, model_revision
from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.storage import write_json
from pipeline.config.params import Params
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import message_encoder
from pipeline.engines.sampling.conditioned_engine import open_engine

LAW_TOKENS = (1, 2)
# Thousands of samples of a token or two: many rows of them take little memory.
ROWS = 256


def _check_weights(
    config: Params, model: str, revision: str | None, messages: list[dict[str, str]], progress: tqdm
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The checks of tokenizer, checkpoint and adapters; and what the engine's checks need of them.

    The model is gone when this returns.
    """
    from pipeline.engines.loading import chat
    from pipeline.engines.loading.model import load_model, load_tokenizer, stop_ids
    from pipeline.engines.sampling import preflight, preflight_law

    settings = config.models[model]
    tokenizer = load_tokenizer(settings, revision)
    terminator = chat.answer_terminator(tokenizer, settings.terminator)
    ids = message_encoder(tokenizer, settings)(messages, False)
    details = {"request": preflight.show_request(tokenizer, ids)}
    progress.write(" ".join(token for _, token in details["request"]["tokens"]))
    # The released code ends answers with EOS, however the model ends its turn.
    released = config.compat == "released_code"
    details["turn_end"] = preflight.check_turn_end(
        tokenizer, settings.chat.template_arguments, terminator, another_allowed=released
    )
    details["numbers"] = preflight.check_numbers(tokenizer, terminator)
    progress.update(len(details))
    loaded = load_model(settings, revision)
    stops = stop_ids(loaded, tokenizer, settings.terminator)
    laws = {count: preflight_law.answer_law(loaded, tokenizer, ids, stops, count) for count in LAW_TOKENS}
    details["stop"] = preflight.check_stop(loaded, tokenizer, ids, terminator, stops)
    progress.update()
    # Last: it changes the weights by rounding.
    details["adapter"] = preflight.check_adapter(loaded, settings, config.train, ids, config.seed)
    progress.update()
    return details, {"tokenizer": tokenizer, "prompt_ids": ids, "stop_ids": stops, "laws": laws}


def _free_memory() -> None:
    """Give back what the checked model held; the engine may need all of the GPU."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def main(run: StageRun, model: str, model_report: Path, prompts: list[Path], output: Path, details: Path) -> None:
    """Write ``output``, which names the checks that were passed, and its numbers to ``details``."""
    from pipeline.engines.sampling import preflight_law

    config = run.params
    request = read_requests(*prompts)[0].text
    messages = [{"role": "user", "content": request}]
    checks = ("request", "turn_end", "numbers", "stop", "adapter", *(f"law_{k}" for k in LAW_TOKENS), "endings")
    with run.tracked() as tracking:
        progress = tracking.bar(total=len(checks), desc=run.title, unit="check")
        numbers, found = _check_weights(config, model, model_revision(model_report), messages, progress)
        _free_memory()
        engine = open_engine(config, model, "base", model_report, model_report, request, rows_at_least=ROWS)
        error = preflight_law.RELATIVE_ERROR[config.models[model].dtype]
        common = {"prompt_ids": found["prompt_ids"], "messages": messages, "seed": config.seed, "model": model}
        for count, law in found["laws"].items():
            check = preflight_law.check_law(engine, law, num_tokens=count, relative_error=error, **common)
            numbers[f"law_{count}"] = check
            progress.update()
            tracking.log({f"law_{count}/p_value": check["p_value"]})
        numbers["endings"] = preflight_law.check_endings(
            engine, tokenizer=found["tokenizer"], stop_ids=found["stop_ids"], **common
        )
        progress.update()
    write_json(details, {"model": model, "engine": config.engine.kind, **numbers})
    # Nothing in it changes when the checks are passed again or by another engine, so stages behind it stay up to date
    # (those that sample depend on the engine themselves). Other weights do change it: some of those stages
    # (constrained) depend on nothing else that tells them apart.
    weights = checkpoint_identity(model_report)
    write_json(output, {"model": model, "checkpoint_sha256": weights, "passed": list(checks)})
    run.write_record()


if __name__ == "__main__":
    command_line()
