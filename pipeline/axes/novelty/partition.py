"""Partition the NoveltyBench responses of a condition into classes that say the same, in the benchmark's formats. Equal
pairs are compared once."""

from pathlib import Path

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.json_lines import write_json_lines
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.storage import rows_by_prompt, write_json
from pipeline.core.language.novelty import distinct, partition_responses
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.resumable import pair_scores, resumable


def main(run: StageRun, model: str, condition: str, prompts: list[Path], generations: Path, output: Path) -> None:
    """Write the partitions of every prompt's responses into ``output``."""
    from pipeline.engines.judges.text_judges import classifier_identity, open_classifier

    settings = run.params.evaluate.novelty.classifier
    identity = classifier_identity(settings)
    run.record.add(classifier=identity)
    requests = read_text_prompts(*prompts)
    rows = rows_by_prompt(generations, GENERATION_COLUMNS, [prompt.prompt_id for prompt in requests])
    ordered = (rows[prompt.prompt_id].sort_values("sample_index", kind="stable") for prompt in requests)
    responses = [table["text"].to_list() for table in ordered]
    with resumable(run, "pair") as done:
        similarity = pair_scores(done, lambda: open_classifier(settings, identity))
        partitions = partition_responses(responses, similarity, settings.threshold)
        asked, divided = {}, {}
        for prompt, texts, partition in zip(requests, responses, partitions, strict=True):
            name = prompt.prompt_id.removeprefix(f"{prompt.split}.")
            entry = {"id": name, "prompt": prompt.text, "model": f"{model}/{condition}", "generations": texts}
            asked.setdefault(prompt.split, []).append(entry)
            found = {**entry, "partition": partition, "distinct": distinct(partition)}
            divided.setdefault(prompt.split, []).append(found)
        with atomic_directory(output) as directory:
            for split, entries in asked.items():
                write_json_lines(directory / split / "generations.jsonl", entries)
                write_json_lines(directory / split / "partitions.jsonl", divided[split])
            write_json(directory / "counts.json", {"classifier": settings.kind})
        run.write_record(num_prompts=len(requests))


if __name__ == "__main__":
    command_line()
