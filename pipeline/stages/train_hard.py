"""Hard-target Calibration Fine-Tuning: cross-entropy on sampled strings (Eq. 4, Algorithm 2)."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.artifacts.output_spaces import OutputSpaceStore
from pipeline.artifacts.prompts import read_prompts
from pipeline.core.laws.rounded_law import RoundedLaw, rounded_law
from pipeline.core.prompts.structured import Prompt
from pipeline.core.training.examples import Example, hard_example, sample_string
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.adapter_training import ExampleRequest, Training, train_adapter

if TYPE_CHECKING:
    import numpy as np

TextSampler = Callable[[Prompt, "np.random.Generator"], str]


def binned_text(spaces: OutputSpaceStore) -> TextSampler:
    """Draws from the output space of a prompt."""
    return lambda prompt, rng: sample_string(spaces[prompt.prompt_id], rng)


def rounded_text(num_decimals: int) -> TextSampler:
    """Draws from a prompt's law rounded to ``num_decimals``."""
    laws: dict[str, RoundedLaw] = {}

    def draw(prompt: Prompt, rng: "np.random.Generator") -> str:
        if prompt.prompt_id not in laws:
            laws[prompt.prompt_id] = rounded_law(prompt.law, num_decimals)
        law = laws[prompt.prompt_id]
        return law.text(law.sample(rng)[0])

    return draw


def main(run: StageRun, model: str, model_report: Path, prompts: Path, targets: Path, output: Path) -> None:
    """Write the adapter directory ``output``.

    ``targets`` is the table of hard output spaces; where ``max_bins`` is null, that of the training prompts.
    """
    from pipeline.core.training.objectives import hard_target_loss
    from pipeline.engines.loading import chat

    config, settings = run.params, run.params.discretize.hard
    reduction = config.train.hard.loss_reduction
    draw = rounded_text(settings.num_decimals) if settings.max_bins is None else binned_text(OutputSpaceStore(targets))

    def open_targets(tokenizer):
        terminator = chat.answer_terminator(tokenizer, config.models[model].terminator)

        def make_examples(requests: list[ExampleRequest]) -> list[Example]:
            answers = [draw(request.prompt, rng) for request in requests for rng in request.streams]
            # One call for the whole step: a fast tokenizer's overhead is per call.
            completions = iter([*ids, terminator] for ids in chat.encode_answers(tokenizer, answers))
            return [
                hard_example(request.prompt_ids, [next(completions) for _ in request.streams], reduction)
                for request in requests
            ]

        return make_examples

    training = Training(
        "hard",
        model,
        model_report,
        read_prompts(prompts),
        hard_target_loss,
        open_targets,
        sequences_per_example=config.train.hard.completions_per_prompt,
    )
    train_adapter(run, training, output)


if __name__ == "__main__":
    command_line()
