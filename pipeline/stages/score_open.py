"""First-step laws of open-ended requests: the most probable tokens of each, exact, without sampling.

Enough of each law is kept for the support size at every threshold to be computed from the table.
"""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.storage import read_requests, write_table
from pipeline.command import run_stage
from pipeline.config.evaluation import BASELINES
from pipeline.config.params import load_params
from pipeline.core.language.open_ended import STORED_MASS, law_entropy, leading_tokens
from pipeline.engines.loading.conditioned_model import adapter_inputs, open_model
from pipeline.errors import ConfigError
from pipeline.record.provenance import StageRecord
from pipeline.record.tracking import stage_run
from pipeline.stages.arguments import add_condition, stage_parser

FIRST_STEP_COLUMNS = ("prompt_id", "token_ids", "probabilities", "entropy_nats", "vocabulary")
"""One row per prompt; ids and probabilities are lists, most probable first; the entropy is that of the whole law."""


def main(
    params: Path, model: str, model_report: Path, condition: str, adapters: Path, prompts: list[Path], output: Path
) -> None:
    """Write the leading part of each prompt's first-step law, and provenance beside the table."""
    from pipeline.engines.loading.model import position_logits
    from pipeline.engines.scoring.first_step import first_step_law

    config = load_params(params)
    if condition in BASELINES:
        raise ConfigError(f"--condition: the replies of {condition!r} do not start with the answer; it has no scores")
    record = StageRecord(
        "score_open",
        {"model": config.model(model), "condition": condition, "stored_mass": STORED_MASS},
        [model_report, *prompts, *adapter_inputs(condition, adapters)],
    )
    requests = read_requests(*prompts)
    opened = open_model(config.model(model), model_report, condition, adapters, requests[0].text)
    logits_at = position_logits(opened.model)
    rows = []
    with stage_run(config, record, model=model, condition=condition) as run:
        for prompt in run.bar(requests, desc=f"score open {model} {condition}", unit="prompt"):
            law = first_step_law(logits_at, opened.encode(prompt.text), opened.device)
            rows.append((prompt.prompt_id, *leading_tokens(law), law_entropy(law), len(law)))
    write_table(output, pd.DataFrame(rows, columns=list(FIRST_STEP_COLUMNS)))
    record.write(output.with_suffix(".provenance.json"), num_prompts=len(rows), seed=config.seed)


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    add_condition(parser)
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    run_stage(main, parser.parse_args())
