"""Adapters trained on soft and hard targets together, or on targets with anchors."""

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.prompts import read_prompts, read_text_prompts
from pipeline.artifacts.storage import read_table
from pipeline.config.conditions import training_settings
from pipeline.config.params import Params
from pipeline.core.training.examples import Example, anchor_example, training_steps
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.adapter_training import Encode, Target, train_adapter
from pipeline.stages.train_hard import hard_target
from pipeline.stages.train_soft import soft_target

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from pipeline.engines.training.fit import Term


def anchor_term(
    config: Params,
    model: str,
    method: str,
    instructions: Path,
    replies: Path,
    tokenizer: "PreTrainedTokenizerBase",
    encode: Encode,
    num_steps: int,
) -> "Term":
    """The term on the base checkpoint's replies to instructions, which may have several replies each."""
    from pipeline.core.training.objectives import anchor_loss
    from pipeline.engines.loading.chat import answer_terminator, reply_ids
    from pipeline.engines.training.fit import Term

    asked, table = read_text_prompts(instructions), read_table(replies, GENERATION_COLUMNS)
    place = {prompt.prompt_id: index for index, prompt in enumerate(asked)}
    places = [place[prompt_id] for prompt_id in table["prompt_id"]]
    encoded = [encode(prompt.text) for prompt in asked]
    terminator = answer_terminator(tokenizer, config.models[model].terminator)
    ended = (table["finish_reason"] == "stop").tolist()
    written = reply_ids(tokenizer, table["text"].tolist(), ended, terminator)

    anchors, max_length = config.methods[method].anchors, training_settings(config, method).max_length
    size, kinds = anchors.sequences_per_step, [asked[index].category for index in places]
    epochs = math.ceil(num_steps * size / len(places))
    order = training_steps(kinds, epochs, 1, size, config.train_seed, model, "anchors")
    # Cut anew, because the last step of an epoch may be smaller.
    draws = [draw.prompt_index for step in order for draw in step]

    def make_examples(step: int) -> list[Example]:
        chosen = draws[step * size : (step + 1) * size]
        return [anchor_example(encoded[places[index]], written[index], max_length) for index in chosen]

    return Term("anchors", make_examples, anchor_loss, weight=anchors.weight, compares=True)


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

    def open_targets(tokenizer: "PreTrainedTokenizerBase") -> list[Target]:
        soft = [soft_target(config, method, tries)] if "soft" in wanted.targets else []
        hard = [hard_target(config, model, method, hard_targets, tokenizer)] if "hard" in wanted.targets else []
        return soft + hard

    anchors = partial(anchor_term, config, model, method, instructions, replies) if wanted.anchors else None
    train_adapter(run, model, method, model_report, read_prompts(prompts), open_targets, output, anchors)


if __name__ == "__main__":
    command_line()
