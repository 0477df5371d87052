"""Build the token prefix tries of an output space for one tokenizer (Eq. 1)."""

from pathlib import Path

from tqdm import tqdm

from pipeline.artifacts import OutputSpaceStore, write_tries
from pipeline.command import run_stage
from pipeline.config import load_params
from pipeline.core.trie import build_trie
from pipeline.stages.arguments import add_model, stage_parser
from pipeline.stages.check_model import model_revision


def main(params: Path, model: str, model_report: Path, output_spaces: Path, output: Path) -> None:
    """Write the trie of every prompt in ``output_spaces`` as memory-mappable arrays."""
    from pipeline.engines import chat
    from pipeline.engines.model import load_tokenizer

    config = load_params(params).model(model)
    tokenizer = load_tokenizer(config, model_revision(model_report))
    terminator = chat.answer_terminator(tokenizer, config.terminator)
    tries = {
        prompt_id: build_trie(chat.encode_answers(tokenizer, space.values), space.probabilities, terminator)
        for prompt_id, space in tqdm(OutputSpaceStore(output_spaces).items(), desc="build tries", unit="prompt")
    }
    write_tries(output, tries, terminator)


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    add_model(parser)
    parser.add_argument("--output-spaces", type=Path, required=True, help="output space table")
    parser.add_argument("--output", type=Path, required=True, help="directory to write")
    run_stage(main, parser.parse_args())
