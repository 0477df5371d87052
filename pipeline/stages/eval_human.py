"""Agreement of a model's law over classes of answers with people's; no model is loaded."""

from pathlib import Path

import pandas as pd

from pipeline.axes.questions.artifact import read_questions
from pipeline.artifacts.storage import read_json
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.core.semantics.human_metrics import judge_rows, metric_rows, question_row
from pipeline.axes.questions.classes import within_people
from pipeline.axes.questions.question import people_counts
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError
from pipeline.stages.answer_classes import counts_by_setting, question_table, split_name
from pipeline.stages.evaluation_output import write_evaluation


def main(
    run: StageRun,
    model: str,
    condition: str,
    prompts: Path,
    partitions: Path,
    base_partitions: Path,
    counts: Path,
    output: Path,
) -> None:
    """Write an evaluation directory; its table ``classes`` has people and answers by class."""
    questions = [question for question in read_questions(prompts) if question.human]
    if not questions:
        raise ArtifactError(f"{prompts} has no question that people were asked, which the axis human needs")
    seed, replicates = run.params.seed, run.params.evaluate.bootstrap_replicates
    own, base = (counts_by_setting(path, questions) for path in (partitions, base_partitions))
    metrics, tables = [], []
    for setting, answers in own.items():
        names = {"axis": "human", "model": model, "condition": condition, "split": split_name(setting)}
        rows = [question_table(questions, found, question_row, seed, "people") for found in (answers, base[setting])]
        found = metric_rows(*rows, seed=seed, names=tuple(names.values()), replicates=replicates)
        metrics += [{**names, **row} for row in found]
        if setting == DEFAULT_SETTING:
            metrics += [{**names, **row} for row in judge_rows(read_json(counts))]
        tables.append(rows[0].assign(split=names["split"], prompt=[question.text for question in questions]))
    classes = [
        {
            "prompt_id": question.prompt_id,
            "label": label,
            "people": people.get(label, 0),
            "answers": answers.get(label, 0),
        }
        for question in questions
        for people, answers in [
            (people_counts(question), within_people(next(iter(own.values()))[question.prompt_id], question))
        ]
        for label in dict.fromkeys((*people, *answers))
    ]
    per_prompt = pd.concat(tables, ignore_index=True)
    write_evaluation(
        run, output, metrics=metrics, failures={}, per_prompt=per_prompt, tables={"classes": pd.DataFrame(classes)}
    )


if __name__ == "__main__":
    command_line()
