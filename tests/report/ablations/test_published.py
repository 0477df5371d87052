"""The paper's printed figures against the text that they were read from."""

import itertools
import re

import pytest

from pipeline.errors import ArtifactError
from pipeline.report.ablations.runs import HARD_ABLATION, PAPER_SETTINGS, is_papers_run, read_published
from tests.conftest import ROOT

TABLE26 = ROOT / "data" / "published" / "table26.csv"
PRINTED = {
    "qwen3_14b": (
        "31001162320.07590.063121001162320.07810.0751001162320.07570.062534096162320.07530.0637316384162320.06270.06133"
        "100184320.07970.06131001321320.07680.0551638484320.0850.0566516384162320.07360.0529516384321320.07010.0597"
    ),
    "gemma3_12b": (
        "31001162320.11490.096521001162320.11660.103151001162320.11160.094134096162320.12360.0922316384162320.11360.081"
        "43100184320.11840.082331001321320.11380.077751638484320.11790.0759516384162320.1050.0811516384321320.12180.0708"
    ),
}
"""The cells of Table 26 as the paper's text has them, without separators, in row order."""


def rows_of(model):
    """(setting, OOD, unseen) in the table's order."""
    figures = read_published(TABLE26)
    return [(s, figures[model, s, "ood"].value, figures[model, s, "unseen"].value) for s in HARD_ABLATION.settings]


def readings(text):
    """All ways to cut the text into rows: decimals, strings, draws, epochs, 32 in total, two values."""
    if not text:
        yield ()
        return
    budgets = "|".join(f"{draws}{32 // draws}32" for draws in (8, 16, 32))
    for sizes in itertools.product(range(1, 5), repeat=2):
        pattern = rf"([1-5])(1001|4096|16384)({budgets})(0\.\d{{{sizes[0]}}})(0\.\d{{{sizes[1]}}})"
        match = re.match(pattern, text)
        if match:
            for rest in readings(text[match.end() :]):
                yield (match.groups(), *rest)


@pytest.mark.parametrize("model", list(PRINTED))
def test_there_is_one_reading(model):
    (reading,) = readings(PRINTED[model])
    assert [(float(ood), float(unseen)) for *_, ood, unseen in reading] == [row[1:] for row in rows_of(model)]


@pytest.mark.parametrize("change", [("uncertain", "doubtful"), ("0.0759", "about 0.08"), (",no,", ",maybe,")])
def test_bad_files_are_named(tmp_path, change):
    path = tmp_path / "table26.csv"
    path.write_text(TABLE26.read_text().replace(*change))
    with pytest.raises(ArtifactError, match=r"table26.csv must have the columns"):
        read_published(path)


def test_same_cell_needs_all_of_the_papers_settings():
    assert is_papers_run({**PAPER_SETTINGS, "models.qwen3_14b.dtype": "bfloat16"})
    assert not is_papers_run({**PAPER_SETTINGS, "prompts.train_prompts_per_family": 16})
    assert not is_papers_run({key: value for key, value in PAPER_SETTINGS.items() if key != "train.learning_rate"})
