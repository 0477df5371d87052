"""First-step laws of open-ended requests: the most probable tokens of each, exact, without sampling."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.scores import FIRST_STEP_COLUMNS
from pipeline.axes.open.open_ended import law_entropy, leading_tokens
from pipeline.config.conditions import adapter_directory
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.record.progress import progress_bar


def main(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: list[Path], output: Path
) -> None:
    from pipeline.engines.loading.model import position_logits
    from pipeline.engines.scoring.token_scores import first_step_law

    requests, rows = read_requests(*prompts), []
    adapter = adapter_directory(condition, weights)
    opened = open_model(run.params.models[model], model_report, adapter, requests[0].text)
    logits_at = position_logits(opened.model)
    for request in progress_bar(requests, desc=run.title, unit="prompt"):
        law = first_step_law(logits_at, opened.encode(request.text), opened.device)
        rows.append((request.prompt_id, *leading_tokens(law), law_entropy(law), len(law)))
    run.write_table(output, pd.DataFrame(rows, columns=list(FIRST_STEP_COLUMNS)))
    run.write_record(num_prompts=len(rows))


if __name__ == "__main__":
    command_line()
