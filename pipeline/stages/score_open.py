"""First-step laws of open-ended requests: the most probable tokens of each, exact, without sampling.

Enough of each law is kept for the support size at every threshold to be computed from the table.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.scores import FIRST_STEP_COLUMNS
from pipeline.artifacts.storage import write_table
from pipeline.config.conditions import adapter_directory
from pipeline.core.language.open_ended import law_entropy, leading_tokens
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def first_step_laws(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: Sequence[Path]
) -> Iterator[tuple[str, np.ndarray, "PreTrainedTokenizerBase"]]:
    """Id, first-step law (float32[V] log-probabilities, nats) and tokenizer for each prompt, in file order."""
    from pipeline.engines.loading.model import position_logits
    from pipeline.engines.scoring.token_scores import first_step_law

    requests = read_requests(*prompts)
    adapter = adapter_directory(condition, weights)
    opened = open_model(run.params.models[model], model_report, adapter, requests[0].text)
    logits_at = position_logits(opened.model)
    with run.tracked() as tracking:
        for prompt in tracking.bar(requests, desc=run.title, unit="prompt"):
            law = first_step_law(logits_at, opened.encode(prompt.text), opened.device)
            yield prompt.prompt_id, law, opened.tokenizer


def leading_row(prompt_id: str, law: np.ndarray) -> tuple:
    """FIRST_STEP_COLUMNS of a first-step law, float32[V] log-probabilities."""
    return (prompt_id, *leading_tokens(law), law_entropy(law), len(law))


def main(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: list[Path], output: Path
) -> None:
    """Write the first-step laws of the open-ended requests."""
    found = first_step_laws(run, model, condition, model_report, weights, prompts)
    rows = [leading_row(prompt_id, law) for prompt_id, law, _ in found]
    write_table(output, pd.DataFrame(rows, columns=list(FIRST_STEP_COLUMNS)))
    run.write_record(num_prompts=len(rows))


if __name__ == "__main__":
    command_line()
