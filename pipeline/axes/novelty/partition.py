"""Partition the NoveltyBench responses of a condition into classes that say the same.

Writes the benchmark's ``SPLIT/generations.jsonl`` and ``SPLIT/partitions.jsonl``, and ``counts.json``
with the comparisons behind them. Equal pairs are compared once.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.json_lines import write_json_lines
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.storage import rows_by_prompt, write_json
from pipeline.core.language.novelty import distinct, partition_responses
from pipeline.core.prompts.text import TextPrompt
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.resumable import pair_scores, resumable


def responses_by_prompt(prompts: Sequence[TextPrompt], generations: Path) -> list[list[str]]:
    """The texts of every prompt in the order of their samples. Raises ArtifactError for a prompt without any."""
    rows = rows_by_prompt(generations, GENERATION_COLUMNS, [prompt.prompt_id for prompt in prompts])
    return [rows[prompt.prompt_id].sort_values("sample_index", kind="stable")["text"].to_list() for prompt in prompts]


def benchmark_rows(
    prompts: Sequence[TextPrompt], name: str, responses: Sequence[list[str]], partitions: Sequence[list[int]]
) -> dict[str, list[dict[str, Any]]]:
    """By split, the records of ``partitions.jsonl``; less the last two keys they are those of ``generations.jsonl``."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for prompt, texts, partition in zip(prompts, responses, partitions, strict=True):
        rows.setdefault(prompt.split, []).append(
            {
                "id": prompt.prompt_id.removeprefix(f"{prompt.split}."),
                "prompt": prompt.text,
                "model": name,
                "generations": texts,
                "partition": partition,
                "distinct": distinct(partition),
            }
        )
    return rows


def main(run: StageRun, model: str, condition: str, prompts: list[Path], generations: Path, output: Path) -> None:
    """Write the partitions of every prompt's responses into ``output``."""
    from pipeline.engines.judges.text_judges import classifier_identity, open_classifier

    settings = run.params.evaluate.novelty.classifier
    identity = classifier_identity(settings)
    run.record.add(classifier=identity)
    rows = read_text_prompts(*prompts)
    responses = responses_by_prompt(rows, generations)
    with resumable(run, "pair") as done:
        similarity = pair_scores(done, lambda: open_classifier(settings, identity))
        partitions, counts = partition_responses(responses, similarity, settings.threshold)
        with atomic_directory(output) as directory:
            for split, entries in benchmark_rows(rows, f"{model}/{condition}", responses, partitions).items():
                asked = [{k: v for k, v in entry.items() if k not in ("partition", "distinct")} for entry in entries]
                write_json_lines(directory / split / "generations.jsonl", asked)
                write_json_lines(directory / split / "partitions.jsonl", entries)
            write_json(directory / "counts.json", {"classifier": settings.kind, **asdict(counts)})
        run.write_record(num_prompts=len(rows))
    print(
        f"{run.title}: {counts.pairs} pairs, {counts.compared} compared, {counts.lexical} by the rule for short "
        f"responses, {counts.classified} by the classifier ({counts.classified_unique} different)"
    )


if __name__ == "__main__":
    command_line()
