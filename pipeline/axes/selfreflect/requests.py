"""Requests for summaries of a model's answers to questions: with the answers before it, and without them."""

from pathlib import Path

from pipeline.artifacts.generations import GENERATION_COLUMNS, SETTING_COLUMN
from pipeline.artifacts.prompts import write_text_prompts
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.questions.answers import answer_texts
from pipeline.axes.questions.question import read_questions
from pipeline.axes.selfreflect.summaries import WRITTEN, listed_and_tested, summary_request
from pipeline.config.conditions import answer_protocol
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.core.prompts.text import TextPrompt
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError


def main(run: StageRun, model: str, condition: str, prompts: Path, generations: Path, output: Path) -> None:
    """Write a request of each kind for every question: its split is the kind, its category the question's id."""
    questions = read_questions(prompts)
    if len(questions) < 2:
        raise ArtifactError(
            f"{prompts} has one question; the axis selfreflect needs two at least, because it compares each with the "
            "summary of another"
        )
    replies = rows_by_prompt(generations, (*GENERATION_COLUMNS, SETTING_COLUMN), [q.prompt_id for q in questions])
    protocol = answer_protocol(run.params, model, condition)
    requests = []
    for question in questions:
        name = question.prompt_id
        own = replies[name][replies[name][SETTING_COLUMN] == DEFAULT_SETTING]
        texts = answer_texts(protocol, own.sort_values("sample_index", kind="stable"))
        listed, _ = listed_and_tested(texts, run.params.selfreflect.test_answers)
        for kind in WRITTEN:
            text = summary_request(question.text, listed if kind == "sampled" else None)
            requests.append(TextPrompt(f"{name}.{kind}", kind, name, text))
    write_text_prompts(output, requests, run.identity)
    run.write_record(num_prompts=len(requests))


if __name__ == "__main__":
    command_line()
