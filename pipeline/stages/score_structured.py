"""Logit-level scores: forward KL from next-token targets at prefixes along sampled paths.

Two targets: ``grid``, the trie of the evaluation space (the paper's), and ``rounded_law``, every
decimal of the law. The grid keeps few of the decimals, so its last digits are arbitrary and
its KL cannot reach 0; that of the rounded law can.
"""

from pathlib import Path

import pandas as pd
from tqdm import tqdm

from pipeline.artifacts import SCORE_COLUMNS, TrieStore, read_prompts, write_table
from pipeline.command import run_stage
from pipeline.config import load_params
from pipeline.core.implicit_trie import ImplicitTrie
from pipeline.core.random_streams import random_stream
from pipeline.core.rounded_law import rounded_law
from pipeline.provenance import StageRecord
from pipeline.stages.arguments import add_scoring, stage_parser
from pipeline.stages.conditioned_model import adapter_inputs, open_model


def main(
    params: Path, model: str, model_report: Path, condition: str, adapters: Path, prompts: list[Path], tries: Path,
    output: Path,
) -> None:  # fmt: skip
    """Write KL(q || model) in nats per prompt, target, path and prefix."""
    from pipeline.engines import chat
    from pipeline.engines.digit_rule import find_digit_tokens
    from pipeline.engines.model import position_logits
    from pipeline.engines.score import score_paths

    config = load_params(params)
    paths, decimals = config.evaluate.paths_per_prompt, config.discretize.eval.num_decimals
    record = StageRecord(
        "score_structured",
        {
            "seed": config.seed, "model": config.model(model), "condition": condition, "paths_per_prompt": paths,
            "num_decimals": decimals,
        },
        [model_report, tries, *prompts, *adapter_inputs(condition, adapters)],
    )  # fmt: skip
    rows, store = read_prompts(*prompts), TrieStore(tries)
    opened = open_model(config.model(model), model_report, condition, adapters, rows[0].text)
    logits_at = position_logits(opened.model)
    entries = []
    terminator = chat.answer_terminator(opened.tokenizer, config.model(model).terminator)
    rule = find_digit_tokens(opened.tokenizer, terminator, decimals)
    for prompt in tqdm(rows, desc=f"score structured {model} {condition}", unit="prompt"):
        targets = {"grid": store[prompt.prompt_id]}
        if rule is not None:
            targets["rounded_law"] = ImplicitTrie(rounded_law(prompt.law, decimals), rule)
        for target, trie in targets.items():
            # The same paths for every condition of a model: their difference has no path noise.
            rng = random_stream(config.seed, "score", "structured", model, prompt.prompt_id, target)
            scores = score_paths(
                logits_at, opened.encode(prompt.text), trie, paths, rng, opened.tokenizer.pad_token_id or 0,
                opened.device,
            )  # fmt: skip
            for path_index, divergences in enumerate(scores):
                entries.extend((prompt.prompt_id, target, path_index, k, kl) for k, kl in enumerate(divergences))
    write_table(output, pd.DataFrame(entries, columns=list(SCORE_COLUMNS)))
    record.write(output.with_suffix(".provenance.json"), num_prefixes=len(entries), seed=config.seed)


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    add_scoring(parser)
    run_stage(main, parser.parse_args())
