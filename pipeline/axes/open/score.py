"""First-step laws of open-ended requests: the most probable tokens of each, exact, without sampling."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.scores import FIRST_STEP_COLUMNS
from pipeline.axes.open.open_ended import law_entropy, leading_tokens
from pipeline.config.conditions import adapter_directory
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.stages.resumable import resumable


def main(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: list[Path], output: Path
) -> None:
    requests = {request.prompt_id: request.text for request in read_requests(*prompts)}

    def laws(missing: Mapping[str, str]) -> Iterator[dict[str, list]]:
        from pipeline.engines.loading.model import position_logits
        from pipeline.engines.scoring.token_scores import first_step_law

        adapter, probe = adapter_directory(condition, weights), next(iter(requests.values()))
        opened = open_model(run.params.models[model], model_report, adapter, probe)
        logits_at = position_logits(opened.model)
        for name, text in missing.items():
            law = first_step_law(logits_at, opened.encode(text), opened.device)
            tokens, probabilities = leading_tokens(law)
            yield {name: [name, tokens.tolist(), probabilities.tolist(), law_entropy(law), len(law)]}

    with resumable(run, "prompt", len(requests)) as done:
        table = pd.DataFrame(done(requests, laws), columns=list(FIRST_STEP_COLUMNS))
        table["token_ids"] = table["token_ids"].map(np.int32)
        table["probabilities"] = table["probabilities"].map(np.float32)
        run.write_table(output, table)
        run.write_record(num_prompts=len(table))


if __name__ == "__main__":
    command_line()
