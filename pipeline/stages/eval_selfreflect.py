"""How well a model's summaries carry the distribution of its answers; no model is loaded."""

from pathlib import Path

from pipeline.axes.questions.artifact import read_questions
from pipeline.artifacts.scores import WORD_DISTANCE_COLUMNS
from pipeline.artifacts.storage import read_table
from pipeline.core.semantics.selfreflect_metrics import metric_rows, question_table
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.evaluation_output import write_evaluation


def main(
    run: StageRun, model: str, condition: str, prompts: Path, scores: Path, base_scores: Path, output: Path
) -> None:
    """Write an evaluation directory."""
    questions = [question.prompt_id for question in read_questions(prompts)]
    own, base = (question_table(questions, read_table(path, WORD_DISTANCE_COLUMNS)) for path in (scores, base_scores))
    names = {"axis": "selfreflect", "model": model, "condition": condition, "split": "all"}
    replicates = run.params.evaluate.bootstrap_replicates
    found = metric_rows(own, base, seed=run.params.seed, names=tuple(names.values()), replicates=replicates)
    metrics = [{**names, **row} for row in found]
    write_evaluation(run, output, metrics=metrics, failures={}, per_prompt=own.assign(split="all"))


if __name__ == "__main__":
    command_line()
