"""Build the token prefix tries of an output space for one tokenizer (Eq. 1), or with ``max_bins: null`` the laws and
the tokenizer's digit rule, from which the targets of any prefix follow."""

from pathlib import Path

from tqdm import tqdm

from pipeline.artifacts.model_report import model_revision
from pipeline.artifacts.output_spaces import OutputSpaceStore
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.tries import write_implicit_tries, write_tries
from pipeline.core.laws.discretize import finite_space
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ConfigError


def main(run: StageRun, model: str, model_report: Path, space: str, source: Path, output: Path) -> None:
    """Write what ``source`` (output spaces; prompts where ``max_bins`` is null) gives, as memory-mappable arrays."""
    from pipeline.engines.loading.digit_rule import answer_tokens, tries_of
    from pipeline.engines.loading.model import load_tokenizer

    config, settings = run.params.models[model], getattr(run.params.discretize, space)
    tokenizer = load_tokenizer(config, model_revision(model_report))
    terminator, tokens = answer_tokens(tokenizer, config.terminator, settings.num_decimals)
    if settings.max_bins is None:
        if tokens is None:
            raise ConfigError(
                f"discretize.{space}.max_bins: null needs a tokenizer that writes numbers digit by digit or in groups "
                f"from the left; that of {model!r} does neither. Set a number of bins"
            )
        prompts = read_prompts(source)
        finite = {prompt.prompt_id: finite_space(prompt.law) for prompt in prompts if isinstance(prompt.law, FiniteLaw)}
        made = dict(tries_of(tokenizer, tokens, terminator, finite))
        rounded = [prompt for prompt in prompts if prompt.prompt_id not in finite]
        write_implicit_tries(output, rounded, settings.num_decimals, tokens, made)
    else:
        spaces = OutputSpaceStore(source)
        made = tries_of(tokenizer, tokens, terminator, spaces)
        write_tries(output, dict(tqdm(made, total=len(spaces), desc="build tries", unit="prompt")), terminator)
    run.write_record()


if __name__ == "__main__":
    command_line()
