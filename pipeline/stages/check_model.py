"""Record a checkpoint's and its tokenizer's identity before any costly work, without weights. Stops where a file or the
terminator's token is missing, the request has a wrong BOS token or a canonical number does not survive."""

from pathlib import Path

from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.storage import write_json
from pipeline.config.retention import is_local_path
from pipeline.dag.execution import StageRun, command_line
from pipeline.sources.repository import pinned_commit


def main(run: StageRun, model: str, prompts: list[Path], output: Path) -> None:
    """Write the model's report: files or hub commit, terminator, and one request token by token."""
    from pipeline.engines.loading.chat import answer_terminator, request_encoder
    from pipeline.engines.loading.model import checkpoint_files, load_tokenizer
    from pipeline.engines.sampling.preflight import check_numbers
    from pipeline.sources.import_gguf import named_quantisation

    config = run.params.models[model]
    local = is_local_path(config.checkpoint)
    files = checkpoint_files(Path(config.checkpoint)) if local else {}
    revision = None if local else pinned_commit(config.checkpoint, config.revision, "model")
    run.record.add(revision=revision)
    tokenizer = load_tokenizer(config, revision)
    terminator = answer_terminator(tokenizer, config.terminator)
    requests = read_requests(*prompts)
    # Laws of one's own may be all that is trained on.
    request = requests[0].text if requests else "Give me one random number."
    ids = request_encoder(tokenizer, config)(request)
    check_numbers(tokenizer, terminator)
    report = {
        "checkpoint": config.checkpoint,
        "revision": revision,
        "files_sha256": files,
        "quantisation": named_quantisation(config),
        "terminator": tokenizer.convert_ids_to_tokens(terminator),
        "terminator_id": terminator,
        "example_request": tokenizer.decode(ids),
        "example_tokens": tokenizer.convert_ids_to_tokens(ids),
    }
    write_json(output, report)
    run.write_record()
    print(f"{model}: {len(ids)} tokens {report['example_tokens']}, terminator {report['terminator']!r}")


if __name__ == "__main__":
    command_line()
