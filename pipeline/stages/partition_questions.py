"""Put every answer to a question into its class, by the rule of ``evaluate.partition``; no model is loaded."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, PARTITION_COLUMNS, SETTING_COLUMN, read_answers
from pipeline.artifacts.prompts import read_questions
from pipeline.artifacts.storage import rows_by_prompt, write_table
from pipeline.config.conditions import answer_protocol
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.core.semantics.partition import classify
from pipeline.core.semantics.question import NO_ANSWER
from pipeline.dag.execution import StageRun, command_line


def main(run: StageRun, model: str, condition: str, prompts: Path, generations: Path, output: Path) -> None:
    """Write the answer and its class for every generation, all decoding settings of a question together."""
    questions = {question.prompt_id: question for question in read_questions(prompts)}
    tables = rows_by_prompt(generations, (*GENERATION_COLUMNS, SETTING_COLUMN), list(questions))
    protocol, rule = answer_protocol(run.params, model, condition), run.params.evaluate.partition.rule
    found = []
    for prompt_id, question in questions.items():
        table = tables[prompt_id]
        replies = [answers[0] for answers in read_answers(protocol, table)]
        # Of several lines the last number may be the result; elsewhere an answer is the first line.
        texts = replies if rule == "number" else [normalise_answer(reply) for reply in replies]
        answers = [None if isinstance(text, Invalid) else text for text in texts]
        found.append(table.assign(answer=answers, label=classify(answers, question, rule)))
    partition = pd.concat(found, ignore_index=True)[list(PARTITION_COLUMNS)]
    write_table(output, partition)
    without = int((partition["label"] == NO_ANSWER).sum())
    run.write_record(num_answers=len(partition), num_without_answer=without)
    classes = partition.groupby(["prompt_id", SETTING_COLUMN])["label"].nunique().mean()
    print(f"{run.title}: {len(partition)} answers, {without} without an answer, {classes:.1f} classes to a question")


if __name__ == "__main__":
    command_line()
