"""Check a checkpoint and its tokenizer before any costly work, and record their identity.

Stops with one sentence if a file is missing, the answer terminator is not a token, the
request has a wrong BOS token, or a canonical number does not survive the tokenizer. No weights
are loaded; the stage preflight does that.
"""

from pathlib import Path

from pipeline.artifacts.storage import read_json, read_prompts, write_json
from pipeline.command import run_stage
from pipeline.config.params import load_params
from pipeline.sources.repository import pinned_commit
from pipeline.stages.arguments import stage_parser


def main(params: Path, model: str, prompts: Path, output: Path) -> None:
    """Write the model's report: files or hub commit, terminator, and one request token by token."""
    from pipeline.engines.loading import chat
    from pipeline.engines.loading.model import checkpoint_files, load_tokenizer
    from pipeline.engines.sampling import preflight

    config = load_params(params).model(model)
    files = checkpoint_files(Path(config.checkpoint)) if config.is_local else {}
    revision = None if config.is_local else pinned_commit(config.checkpoint, config.revision, "model")
    tokenizer = load_tokenizer(config, revision)
    terminator = chat.answer_terminator(tokenizer, config.terminator)
    request = read_prompts(prompts)[0].text
    ids = chat.encode_request(tokenizer, request, config.chat.template_arguments, config.chat.answer_prefix)
    preflight.check_numbers(tokenizer, terminator)
    report = {
        "checkpoint": config.checkpoint,
        "revision": revision,
        "files_sha256": files,
        "terminator": tokenizer.convert_ids_to_tokens(terminator),
        "terminator_id": terminator,
        "example_request": tokenizer.decode(ids),
        "example_tokens": tokenizer.convert_ids_to_tokens(ids),
    }
    write_json(output, report)
    print(f"{model}: {len(ids)} tokens {report['example_tokens']}, terminator {report['terminator']!r}")


def model_revision(report: Path) -> str | None:
    """The hub commit that check_model recorded; None for a local checkpoint."""
    return read_json(report)["revision"]


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    parser.add_argument("--model", required=True, help="model name in params.yaml")
    parser.add_argument("--prompts", type=Path, required=True, help="prompt table; its first prompt is the example")
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    run_stage(main, parser.parse_args())
