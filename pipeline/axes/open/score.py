"""First-step laws of open-ended requests: the most probable tokens of each, exact, without sampling."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.scores import FIRST_STEP_COLUMNS
from pipeline.axes.open.open_ended import law_entropy, leading_tokens
from pipeline.config.conditions import adapter_directory
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model

if TYPE_CHECKING:
    from pipeline.engines.loading.conditioned_model import ConditionedModel
    from pipeline.engines.loading.model import PositionLogits


def open_requested(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, requests: Sequence[Any]
) -> "tuple[ConditionedModel, PositionLogits]":
    """The model under its condition, and its logits at chosen positions. Raises what ``open_model`` raises."""
    from pipeline.engines.loading.model import position_logits

    adapter = adapter_directory(condition, weights)
    opened = open_model(run.params.models[model], model_report, adapter, requests[0].text)
    return opened, position_logits(opened.model)


def first_step_laws(
    run: StageRun, opened: "ConditionedModel", logits_at: "PositionLogits", requests: Sequence[Any]
) -> Iterator[tuple[Any, np.ndarray]]:
    """Each request, which has a ``text``, and its first-step law, float32[V] log-probabilities, nats."""
    from pipeline.engines.scoring.token_scores import first_step_law

    with run.tracked() as tracking:
        for request in tracking.bar(requests, desc=run.title, unit="prompt"):
            yield request, first_step_law(logits_at, opened.encode(request.text), opened.device)


def leading_row(prompt_id: str, law: np.ndarray) -> tuple:
    """FIRST_STEP_COLUMNS of a first-step law, float32[V] log-probabilities."""
    return (prompt_id, *leading_tokens(law), law_entropy(law), len(law))


def main(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: list[Path], output: Path
) -> None:
    """Write the first-step laws of the open-ended requests."""
    requests = read_requests(*prompts)
    opened = open_requested(run, model, condition, model_report, weights, requests)
    rows = [leading_row(request.prompt_id, law) for request, law in first_step_laws(run, *opened, requests)]
    run.write_table(output, pd.DataFrame(rows, columns=list(FIRST_STEP_COLUMNS)))
    run.write_record(num_prompts=len(rows))


if __name__ == "__main__":
    command_line()
