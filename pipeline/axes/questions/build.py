"""Write the questions of a prompt set, from a file or from a data set of the hub, whose commit is recorded."""

from pathlib import Path

from pipeline.axes.questions.artifact import write_questions
from pipeline.axes.questions.prompt_set import KEY, read_questions
from pipeline.dag.execution import StageRun, command_line
from pipeline.sources.prompt_rows import source_revision


def main(run: StageRun, output: Path) -> None:
    """Write the questions of ``prompts.questions``."""
    config = run.params.prompts.questions
    revision = source_revision(f"{KEY}.source", config.source, config.revision)
    run.record.add(revision=revision)
    questions = read_questions(config, revision)
    write_questions(output, questions)
    asked, right = (sum(map(bool, values)) for values in zip(*((q.human, q.gold) for q in questions), strict=True))
    run.write_record(num_prompts=len(questions), num_with_people=asked, num_with_gold=right)
    print(f"{len(questions)} questions: {asked} with people's answers, {right} with accepted ones")


if __name__ == "__main__":
    command_line()
