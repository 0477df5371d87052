"""Hard-target Calibration Fine-Tuning: cross-entropy on sampled strings (Eq. 4, Algorithm 2)."""

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.artifacts.output_spaces import OutputSpaceStore
from pipeline.artifacts.prompts import read_prompts
from pipeline.config.conditions import training_settings
from pipeline.config.params import Params
from pipeline.core.laws.discretize import finite_space
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.laws.rounded_law import RoundedLaw, rounded_law
from pipeline.core.prompts.structured import Prompt
from pipeline.core.training.examples import Example, hard_example, sample_string
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.adapter_training import ExampleRequest, Target, train_adapter

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedTokenizerBase


def hard_target(
    config: Params, model: str, method: str, hard_targets: Path, tokenizer: "PreTrainedTokenizerBase"
) -> Target:
    """Strings drawn from the table of hard output spaces; where ``max_bins`` is null, from the prompts' laws."""
    from pipeline.core.training.objectives import hard_target_loss
    from pipeline.engines.loading import chat

    space, hard = config.discretize.hard, training_settings(config, method).hard
    spaces = None if space.max_bins is None else OutputSpaceStore(hard_targets)
    terminator = chat.answer_terminator(tokenizer, config.models[model].terminator)
    laws: dict[str, RoundedLaw] = {}

    def draw(prompt: Prompt, rng: "np.random.Generator") -> str:
        if spaces is not None:
            return sample_string(spaces[prompt.prompt_id], rng)
        if isinstance(prompt.law, FiniteLaw):
            return sample_string(finite_space(prompt.law), rng)
        if prompt.prompt_id not in laws:
            laws[prompt.prompt_id] = rounded_law(prompt.law, space.num_decimals)
        law = laws[prompt.prompt_id]
        return law.text(law.sample(rng)[0])

    def make_examples(requests: list[ExampleRequest]) -> list[Example]:
        answers = [draw(request.prompt, rng) for request in requests for rng in request.streams]
        # One call for the whole step: a fast tokenizer's overhead is per call.
        completions = iter([*ids, terminator] for ids in chat.encode_answers(tokenizer, answers))
        return [
            hard_example(request.prompt_ids, [next(completions) for _ in request.streams], hard.loss_reduction)
            for request in requests
        ]

    packed = hard.completions_per_prompt
    return Target("hard", hard_target_loss, make_examples, hard.epochs, hard.samples_per_prompt // packed, packed)


def main(
    run: StageRun, model: str, method: str, model_report: Path, prompts: Path, hard_targets: Path, output: Path
) -> None:
    """Write the adapter directory ``output``, trained on strings drawn from ``hard_targets``."""

    def open_targets(tokenizer: "PreTrainedTokenizerBase") -> list[Target]:
        return [hard_target(run.params, model, method, hard_targets, tokenizer)]

    train_adapter(run, model, method, model_report, read_prompts(prompts), open_targets, output)


if __name__ == "__main__":
    command_line()
