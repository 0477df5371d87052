"""Adapters trained on soft and hard targets together, on targets with anchors, or with the rest of a law held."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.prompts import read_prompts, read_text_prompts
from pipeline.artifacts.storage import read_table
from pipeline.config.conditions import training_settings
from pipeline.config.params import Params
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.training.examples import training_steps
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.adapter_training import OpenedModel, train_adapter
from pipeline.stages.train_hard import hard_target
from pipeline.stages.train_soft import soft_target

if TYPE_CHECKING:
    from pipeline.engines.training.fit import Term


def anchor_term(
    config: Params,
    model: str,
    method: str,
    instructions: Sequence[TextPrompt],
    replies: pd.DataFrame,
    opened: OpenedModel,
) -> "Term":
    """The term on replies: the base checkpoint's, or for the reverse divergence the adapted model's own.

    ``replies`` are the base checkpoint's, to instructions that may be asked several times.
    """
    from pipeline.core.training.examples import anchor_example
    from pipeline.core.training.objectives import forward_anchor_loss, hard_target_loss, reverse_anchor_loss
    from pipeline.engines.loading.chat import answer_terminator, reply_ids
    from pipeline.engines.loading.model import stop_ids
    from pipeline.engines.training.fit import Term
    from pipeline.engines.training.on_policy import OnPolicyReplies

    settings, terminator_name = config.methods[method].anchors, config.models[model].terminator
    terminator, size = answer_terminator(opened.tokenizer, terminator_name), settings.sequences_per_step
    prompts = [opened.encode(prompt.text) for prompt in instructions]
    kinds = [prompt.category for prompt in instructions]
    on_policy: Any = None
    if settings.divergence == "reverse":
        on_policy = OnPolicyReplies(
            opened.model,
            opened.tokenizer,
            prompts,
            kinds,
            stop_ids(opened.model, opened.tokenizer, terminator_name),
            terminator,
            sequences_per_step=size,
            steps=settings.refresh_every_steps,
            max_new_tokens=config.generate.instructions.max_new_tokens,
            names=(config.train_seed, model),
            group=opened.group,
        )
        pairs_of_step = on_policy.of_step
    else:
        place = {prompt.prompt_id: index for index, prompt in enumerate(instructions)}
        asked = [place[prompt_id] for prompt_id in replies["prompt_id"]]
        ended = (replies["finish_reason"] == "stop").tolist()
        written = reply_ids(opened.tokenizer, replies["text"].tolist(), ended, terminator)
        epochs = math.ceil(opened.num_steps * size / len(asked))
        order = training_steps([kinds[index] for index in asked], epochs, 1, size, config.train_seed, model, "anchors")
        # Cut anew, because the last step of an epoch may be smaller.
        draws = [draw.prompt_index for step in order for draw in step]

        def pairs_of_step(step: int) -> list[tuple[int, list[int]]]:
            return [(asked[index], written[index]) for index in draws[step * size : (step + 1) * size]]

    objectives = {"forward": forward_anchor_loss, "reverse": reverse_anchor_loss, "replay": hard_target_loss}
    max_length = training_settings(config, method).max_length
    return Term(
        "anchors",
        lambda step: [anchor_example(prompts[index], ids, max_length) for index, ids in pairs_of_step(step)],
        objectives[settings.divergence],
        weight=settings.weight,
        compares=settings.divergence != "replay",
        kl_budget=settings.kl_budget,
        memory=on_policy,
    )


def main(
    run: StageRun,
    model: str,
    method: str,
    model_report: Path,
    prompts: Path,
    tries: Path,
    hard_targets: Path,
    instructions: Path,
    replies: Path,
    output: Path,
) -> None:
    """Write the adapter directory ``output``; what the method does not train on is not read."""
    config, wanted = run.params, run.params.methods[method]
    make = {
        "soft": lambda: soft_target(config, method, tries),
        "hard": lambda: hard_target(config, model, method, hard_targets),
    }
    anchors = None
    if wanted.anchors is not None:
        generations = read_table(replies, GENERATION_COLUMNS)
        anchors = partial(anchor_term, config, model, method, read_text_prompts(instructions), generations)
    targets = [make[name]() for name in wanted.targets]
    train_adapter(run, model, method, model_report, read_prompts(prompts), targets, output, anchors)


if __name__ == "__main__":
    command_line()
