"""Check, before anything costly runs, that a model and the configured engine do what the experiment counts on.

Stops with one sentence if the request has a wrong BOS token, the model's turn ends with another token than the
answer terminator, a number does not survive the tokenizer, decoding does not stop, a random adapter changes nothing
or merges wrongly, or what the engine samples is not the model's softmax at temperature 1. Warns where the model's
answers are too alike to show a wrong engine.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from pipeline.artifacts.model_report import checkpoint_identity, model_revision
from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.storage import write_json
from pipeline.config.params import Params
from pipeline.core.prompts.text import TextPrompt
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.encoders import request_encoder
from pipeline.engines.sampling.conditioned_engine import open_engine

if TYPE_CHECKING:
    from pipeline.engines.sampling.preflight_law import LawCheck

CHECKS = ("request", "turn_end", "numbers", "stop", "adapter", "laws")
# Of each kind of prompts, structured and open-ended: those with the most random answers.
LAW_REQUESTS = 2


def _check_weights(
    config: Params, model: str, revision: str | None, tables: Sequence[Sequence[TextPrompt]], progress: tqdm
) -> tuple[dict[str, Any], list["LawCheck"]]:
    """The checks of tokenizer, checkpoint and adapters, and those of the engine with requests of each of the tables.

    The model is gone when this returns.
    """
    from pipeline.engines.loading import chat
    from pipeline.engines.loading.model import load_model, load_tokenizer, stop_ids
    from pipeline.engines.sampling import preflight, preflight_law

    settings = config.models[model]
    tokenizer = load_tokenizer(settings, revision)
    terminator = chat.answer_terminator(tokenizer, settings.terminator)
    encode = request_encoder(tokenizer, settings)
    kinds = [{row.prompt_id: encode(row.text) for row in table} for table in tables]
    ids = next(iter(kinds[0].values()))
    details: dict[str, Any] = {"request": tokenizer.convert_ids_to_tokens(ids)}
    progress.write(" ".join(details["request"]))
    # The released code ends answers with EOS, however the model ends its turn.
    released = config.compat == "released_code"
    details["turn_end"] = preflight.check_turn_end(
        tokenizer, settings.chat.template_arguments, terminator, required=not released
    )
    details["numbers"] = preflight.check_numbers(tokenizer, terminator)
    progress.update(len(details))
    loaded = load_model(settings, revision)
    stops = stop_ids(loaded, tokenizer, settings.terminator)
    details["stop"] = preflight.check_stop(loaded, tokenizer, ids, terminator, stops)
    progress.update()
    chosen: dict[str, list[int]] = {}
    for kind in kinds:
        chosen |= preflight_law.most_random(loaded, kind, LAW_REQUESTS)
    checks = preflight_law.law_checks(loaded, tokenizer, chosen, stops)
    # Last: it changes the weights by rounding.
    details["adapter"] = preflight.check_adapter(loaded, settings, config.train, ids, config.seed)
    progress.update()
    return details, checks


def main(
    run: StageRun,
    model: str,
    model_report: Path,
    prompts: list[Path],
    open_prompts: Path,
    output: Path,
    details: Path,
) -> None:
    """Write ``output``, which names the checks that were passed, and its numbers to ``details``."""
    from pipeline.engines.loading.memory import release
    from pipeline.engines.sampling import preflight_law

    config = run.params
    # Without families there are no structured prompts.
    tables = [table for table in (read_requests(*prompts), read_requests(open_prompts)) if table]
    with run.tracked() as tracking:
        progress = tracking.bar(total=len(CHECKS), desc=run.title, unit="check")
        numbers, checks = _check_weights(config, model, model_revision(model_report), tables, progress)
        release()
        error = preflight_law.RELATIVE_ERROR[config.models[model].dtype]
        numbers["power"] = preflight_law.power(checks, config.seed, error)
        noticed = ", ".join(f"{name} {value:.3f}" for name, value in numbers["power"].items())
        progress.write(f"{model}: probability that the samples show a wrong engine: {noticed}")
        numbers["warning"] = preflight_law.power_warning(numbers["power"])
        if numbers["warning"]:
            progress.write(f"warning: {model}: {numbers['warning']}")
        probe = tables[0][0].text
        engine = open_engine(config, model, "base", model_report, model_report, probe)
        numbers["laws"] = preflight_law.check_laws(engine, checks, seed=config.seed, model=model, relative_error=error)
        tracking.log({"laws/p_value": numbers["laws"]["p_value"]})
        progress.update()
    write_json(details, {"model": model, "engine": config.engine.kind, **numbers})
    # Nothing in it changes when the checks are passed again or by another engine, so stages behind it stay up to date
    # (those that sample depend on the engine themselves). Other weights do change it: some of those stages
    # (constrained) depend on nothing else that tells them apart.
    weights = checkpoint_identity(model_report)
    write_json(output, {"model": model, "checkpoint_sha256": weights, "passed": list(CHECKS)})
    run.write_record()


if __name__ == "__main__":
    command_line()
