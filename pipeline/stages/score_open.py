"""First-step laws of open-ended requests: the most probable tokens of each, exact, without sampling.

Enough of each law is kept for the support size at every threshold to be computed from the table.
"""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.scores import FIRST_STEP_COLUMNS
from pipeline.artifacts.storage import write_table
from pipeline.config.conditions import adapter_directory
from pipeline.core.language.open_ended import law_entropy, leading_tokens
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model


def first_step_laws(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: list[Path]
) -> pd.DataFrame:
    """The leading part of each prompt's first-step law; FIRST_STEP_COLUMNS."""
    from pipeline.engines.loading.model import position_logits
    from pipeline.engines.scoring.token_scores import first_step_law

    requests = read_requests(*prompts)
    adapter = adapter_directory(condition, weights)
    opened = open_model(run.params.models[model], model_report, adapter, requests[0].text)
    logits_at = position_logits(opened.model)
    rows = []
    with run.tracked() as tracking:
        for prompt in tracking.bar(requests, desc=run.title, unit="prompt"):
            law = first_step_law(logits_at, opened.encode(prompt.text), opened.device)
            rows.append((prompt.prompt_id, *leading_tokens(law), law_entropy(law), len(law)))
    return pd.DataFrame(rows, columns=list(FIRST_STEP_COLUMNS))


def main(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: list[Path], output: Path
) -> None:
    """Write the first-step laws of the open-ended requests."""
    laws = first_step_laws(run, model, condition, model_report, weights, prompts)
    write_table(output, laws)
    run.write_record(num_prompts=len(laws))


if __name__ == "__main__":
    command_line()
