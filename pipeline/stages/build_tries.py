"""Build the token prefix tries of an output space for one tokenizer (Eq. 1).

With ``max_bins: null`` there is nothing to enumerate: the laws and the tokenizer's digit rule
are written, from which the targets of any prefix follow.
"""

from pathlib import Path

from tqdm import tqdm

from pipeline.artifacts.storage import OutputSpaceStore, read_prompts, write_implicit_tries, write_tries
from pipeline.command import run_stage
from pipeline.config.params import load_params
from pipeline.errors import ConfigError
from pipeline.stages.arguments import add_model, stage_parser
from pipeline.stages.check_model import model_revision


def main(params: Path, model: str, model_report: Path, space: str, source: Path, output: Path) -> None:
    """Write the tries of every prompt in ``source`` as memory-mappable arrays, or what they follow from."""
    from pipeline.engines.loading import chat
    from pipeline.engines.loading.digit_rule import find_digit_tokens, tries_of
    from pipeline.engines.loading.model import load_tokenizer

    config = load_params(params)
    settings = getattr(config.discretize, space)
    tokenizer = load_tokenizer(config.model(model), model_revision(model_report))
    terminator = chat.answer_terminator(tokenizer, config.model(model).terminator)
    tokens = find_digit_tokens(tokenizer, terminator, settings.num_decimals)
    if settings.max_bins is None:
        if tokens is None:
            raise ConfigError(
                f"discretize.{space}.max_bins: null needs a tokenizer that writes numbers digit by digit or in groups "
                f"from the left; that of {model!r} does neither. Set a number of bins"
            )
        write_implicit_tries(output, read_prompts(source), settings.num_decimals, tokens)
        return
    spaces = OutputSpaceStore(source)
    progress = tqdm(
        tries_of(tokenizer, tokens, terminator, spaces), total=len(spaces), desc="build tries", unit="prompt"
    )
    write_tries(output, dict(progress), terminator)


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    add_model(parser)
    parser.add_argument("--space", required=True, choices=["soft", "eval"], help="settings in params.yaml")
    parser.add_argument(
        "--source", type=Path, required=True, help="output space table; prompt table where max_bins is null"
    )
    parser.add_argument("--output", type=Path, required=True, help="directory to write")
    run_stage(main, parser.parse_args())
