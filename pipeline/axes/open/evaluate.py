"""Metrics of open-ended random generation from generations and first-step laws; no model is loaded."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, read_answers
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.scores import FIRST_STEP_COLUMNS
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.open.open_ended import SUPPORT_MASS, support_size
from pipeline.config.conditions import answer_protocol
from pipeline.config.params import read_yaml
from pipeline.core.language.diversity import expected_distinct
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.core.statistics.summarise import mean_of
from pipeline.dag.execution import StageRun, command_line

OF_ANSWERS = {name: mean_of(name) for name in ("valid_rate", "unique_fraction")}
OF_LISTS = {name: mean_of(name) for name in ("listed_distinct", "listed_fraction")}


def read_closed_lists(path: Path) -> dict[str, dict[str, str]]:
    """By category, the member that each of its names stands for; names are case folded."""
    members = {category: text.split(", ") for category, text in read_yaml(path).items()}
    return {
        category: {name.casefold(): member for member in listed for name in member.split(" / ")}
        for category, listed in members.items()
    }


def answer_counts(answers: Sequence[str | Invalid]) -> dict[str, int]:
    """How often each answer was given, most frequent first, equal ones in code point order."""
    counts = Counter(answer for answer in answers if not isinstance(answer, Invalid))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def open_row(
    prompt: TextPrompt, answers: Sequence[str | Invalid], reference_size: int, names: Mapping[str, str] | None = None
) -> dict:
    """A row of the per-prompt table. ``unique_fraction`` is distinct answers over all samples, failures included; of
    more than ``reference_size`` samples, its expectation in a random subset of that size, as is ``listed_distinct``,
    the members of the category's closed list that were named. Without a list (``names``) this and their share are NaN.
    """
    counts = np.array(list(answer_counts(answers).values()), dtype=np.int64)
    reasons = Counter(answer.value for answer in answers if isinstance(answer, Invalid))
    size = min(len(answers), reference_size)
    named = [(names or {}).get(answer.casefold().rstrip(".")) for answer in answers if not isinstance(answer, Invalid)]
    listed = np.array(list(Counter(filter(None, named)).values()), dtype=np.int64)
    of_list = {"listed_distinct": math.nan, "listed_fraction": math.nan}
    if names is not None and size:
        of_list = {
            "listed_distinct": expected_distinct(listed, len(answers), size),
            "listed_fraction": listed.sum() / len(answers),
        }
    return {
        "prompt_id": prompt.prompt_id,
        "split": prompt.split,
        "category": prompt.category,
        "num_samples": len(answers),
        "num_valid": int(counts.sum()),
        "valid_rate": counts.sum() / len(answers) if answers else math.nan,
        "unique_fraction": expected_distinct(counts, len(answers), size) / size if size else math.nan,
        **of_list,
        **{f"invalid_{reason.value}": reasons[reason.value] for reason in Invalid},
    }


def main(
    run: StageRun, model: str, prompts: list[Path], generations: Path, scores: Path, closed_lists: Path, output: Path
) -> None:
    """Write an evaluation with the table ``answers``: one row per distinct answer of a prompt, most frequent first."""
    evaluation, tables = ModelEvaluation(run, "open", model), []
    requests, reference_size = read_text_prompts(*prompts), run.params.generate.open.num_samples
    names, lists = [prompt.prompt_id for prompt in requests], read_closed_lists(closed_lists)
    for condition, replies in evaluation.rows(generations, GENERATION_COLUMNS, names):
        protocol, laws, rows, counted = answer_protocol(run.params, model, condition), {}, [], []
        if condition in run.params.conditions:
            laws = rows_by_prompt(scores / f"{condition}.parquet", FIRST_STEP_COLUMNS, names)
        for prompt in requests:
            answers = list(map(normalise_answer, read_answers(protocol, replies[prompt.prompt_id])))
            size = support_size(laws[prompt.prompt_id]["probabilities"].iloc[0], SUPPORT_MASS) if laws else math.nan
            row = open_row(prompt, answers, reference_size, lists.get(prompt.category))
            rows.append(row | {"top_p_support_size": size})
            counts = answer_counts(answers).items()
            counted += [(prompt.prompt_id, prompt.category, answer, count) for answer, count in counts]
        answered = pd.DataFrame(counted, columns=["prompt_id", "category", "answer", "count"])
        evaluation.add_table(condition, "answers", answered)
        evaluation.add_per_prompt(condition, pd.DataFrame(rows))
        tables.append(pd.DataFrame(rows).assign(condition=condition))
    for split, members in pd.concat(tables, ignore_index=True).groupby("split", sort=False):
        evaluation.summarise(members, OF_ANSWERS, split=split)
        if (with_list := members["category"].isin(lists)).any():
            evaluation.summarise(members[with_list], OF_LISTS, split=split)
        with_law = members[members["condition"].isin(run.params.conditions)]
        evaluation.summarise(with_law, {"top_p_support_size": mean_of("top_p_support_size")}, split=split)
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
