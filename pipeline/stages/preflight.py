"""Check, before anything costly runs, that the model's turn ends with the answer terminator, a random adapter changes
something, and the engine samples the model's softmax at temperature 1. Warns where answers are too alike to show it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.artifacts.model_report import checkpoint_identity, model_revision
from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.storage import write_json
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.sampling.conditioned_engine import open_engine
from pipeline.record.progress import progress_bar

if TYPE_CHECKING:
    from pipeline.engines.sampling.preflight_law import LawCheck

CHECKS = ("turn_end", "adapter", "laws")
# Of each kind of prompts, structured and open-ended: those with the most random answers.
LAW_REQUESTS = 2


def _check_weights(
    run: StageRun, model: str, revision: str | None, tables: list[dict[str, str]]
) -> tuple[dict[str, float], list["LawCheck"]]:
    """The figures of a random adapter, and the engine's checks with each table's requests; the model is gone after."""
    from pipeline.engines.loading.chat import answer_terminator, request_encoder
    from pipeline.engines.loading.model import load_model, load_tokenizer, stop_ids
    from pipeline.engines.sampling import preflight, preflight_law

    config, settings = run.params, run.params.models[model]
    tokenizer = load_tokenizer(settings, revision)
    # The released code ends answers with EOS, however the model ends its turn.
    if config.compat != "released_code":
        terminator = answer_terminator(tokenizer, settings.terminator)
        preflight.check_turn_end(tokenizer, settings.chat.template_arguments, terminator)
    loaded = load_model(settings, revision)
    encode, chosen = request_encoder(tokenizer, settings), {}
    kinds = [{name: encode(text) for name, text in table.items()} for table in tables]
    for kind in kinds:
        chosen |= preflight_law.most_random(loaded, kind, LAW_REQUESTS)
    checks = preflight_law.law_checks(loaded, tokenizer, chosen, stop_ids(loaded, tokenizer, settings.terminator))
    # Last: the model keeps the adapter.
    ids = next(iter(kinds[0].values()))
    return preflight.check_adapter(loaded, settings, config.train, ids, config.seed), checks


def main(
    run: StageRun, model: str, model_report: Path, prompts: list[Path], open_prompts: Path, output: Path, details: Path
) -> None:
    """Write ``output``, which names the checks that were passed, and its numbers to ``details``."""
    from pipeline.engines.loading.memory import release_memory
    from pipeline.engines.sampling import preflight_law

    config, numbers = run.params, dict[str, Any]()
    # Without families there are no structured prompts.
    read = (read_requests(*prompts), read_requests(open_prompts))
    tables = [{row.prompt_id: row.text for row in table} for table in read if table]
    with progress_bar(total=len(CHECKS), desc=run.title, unit="check") as progress:
        numbers["adapter"], checks = _check_weights(run, model, model_revision(model_report), tables)
        progress.update(2)
        # The model that was checked makes room for the engine's.
        release_memory()
        error = preflight_law.RELATIVE_ERROR[config.models[model].dtype]
        numbers["power"] = preflight_law.power(checks, error)
        noticed = ", ".join(f"{name} {value:.3f}" for name, value in numbers["power"].items())
        progress.write(f"{model}: probability that the samples show a wrong engine: {noticed}")
        numbers["warning"] = preflight_law.power_warning(numbers["power"])
        if numbers["warning"]:
            progress.write(f"warning: {model}: {numbers['warning']}")
        probe = next(iter(tables[0].values()))
        engine = open_engine(config, model, "base", model_report, model_report, probe)
        numbers["laws"] = preflight_law.check_laws(engine, checks, seed=config.seed, model=model, relative_error=error)
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
