"""What a digest of code follows and what it leaves out, on a small program and on the project's own."""

import shutil
import textwrap
from pathlib import Path

import pytest

from pipeline.dag.code_digest import CHECK, Code, project_code
from pipeline.dag.stages import PIECES
from tests.conftest import ROOT

PROGRAM = {
    "__init__": "",
    "errors": "def warn():\n    return 'really'\n",
    "stage": '''
        """What the stage does."""
        from typing import TYPE_CHECKING
        import numpy as np
        from pipeline import laws
        from pipeline.draws import Drawer, draw
        from pipeline.errors import warn
        from pipeline.hints import Hint
        if TYPE_CHECKING:
            from pipeline.unused import Name

        LIMIT = 10

        def main(count: Hint) -> list:
            """Draw numbers."""
            from pipeline.lazy import finish

            if count > LIMIT:
                raise ValueError(f"{count:.2f} is too many, {warn()}")
            return finish([laws.mean(draw(np.pi)) for _ in range(count)])
    ''',
    "laws": "from pipeline.tables import WIDTH\n\ndef mean(values):\n    return sum(values) / WIDTH\n",
    "draws": "class Drawer:\n    size: int = 3\n\ndef draw(scale):\n    return [scale] * Drawer().size\n",
    "tables": "WIDTH = 4\n",
    "lazy": "def finish(values):\n    return values\n",
    "hints": "class Hint:\n    pass\n",
    "unused": "class Name:\n    pass\n",
    "axes/__init__": "def axis_modules(part):\n    return __import__(part)\n",
    "axes/one/__init__": "AXIS = 'One'\n",
    "axes/one/evaluate": "def main():\n    return 1\n",
    "axes/one/report": "REPORT = 'a table'\n",
    "axes/shared/report": "REPORT = 'no axis, no report'\n",
    "report": "from pipeline.axes import axis_modules\n\ndef main():\n    return axis_modules('report')\n",
}


@pytest.fixture
def digest(tmp_path):
    """The digest of a stage of the program, with one text of a module replaced."""
    for name, text in PROGRAM.items():
        path = tmp_path / "pipeline" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    def digest(module: str = "stage", old: str = "", new: str = "", stage: str = "stage") -> str:
        path = tmp_path / "pipeline" / f"{module}.py"
        before = path.read_text()
        assert old in before
        path.write_text(before.replace(old, new, 1))
        try:
            return Code(tmp_path).digest(f"pipeline.{stage}")
        finally:
            path.write_text(before)

    return digest


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("stage", '"""Draw numbers."""', '"""Another docstring."""'),
        ("stage", "count: Hint) -> list", "count: float) -> tuple"),
        ("stage", "is too many", "are far too many"),
        ("stage", "LIMIT = 10", "# The largest number.\nLIMIT = 10\n'''Documented.'''"),
        ("stage", "    if count > LIMIT", "    # A comment.\n\n    if (count > LIMIT)"),
        ("hints", "pass", "size = 3"),
        ("errors", "'really'", "'truly'"),
    ],
)
def test_what_computes_nothing_or_is_not_reached_changes_nothing(digest, module, old, new):
    assert digest(module, old, new) == digest()


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("stage", "LIMIT = 10", "LIMIT = 11"),
        ("stage", "raise ValueError", "raise TypeError"),
        ("stage", "import Drawer, draw", "import Drawer, Drawer as draw"),
        ("stage", "from pipeline.draws import Drawer, draw", "from pipeline.lazy import finish as draw"),
        ("laws", "sum(values) / WIDTH", "sum(values) * WIDTH"),
        ("draws", "size: int = 3", "size: float = 3"),
        ("lazy", "return values", "return values[1:]"),
    ],
)
def test_a_change_of_meaning_changes_the_digest(digest, module, old, new):
    assert digest(module, old, new) != digest()


@pytest.mark.parametrize(
    ("module", "counts"),
    [
        ("axes/one/report", True),
        ("axes/one/__init__", True),
        ("axes/one/evaluate", False),
        ("axes/shared/report", False),
    ],
)
def test_modules_of_all_axes_count_for_who_goes_through_them(digest, module, counts):
    assert (digest(module, "", "ADDED = 1\n", stage="report") != digest(stage="report")) == counts


def test_code_may_move(digest, tmp_path):
    before, package = digest(), tmp_path / "pipeline"
    (package / "elsewhere").mkdir()
    (package / "draws.py").rename(package / "elsewhere" / "numbers.py")
    assert digest("stage", "from pipeline.draws", "from pipeline.elsewhere.numbers") == before
    with pytest.raises(LookupError, match=r"there is no module pipeline\.nothing"):
        digest(stage="nothing")


# Of each of these modules: a stage that runs its code, and beginnings of names that must not be run again for it.
NO_SAMPLING = ("generate", "train-", "score", "build-", "discretize")
EDITED = {
    "core/laws/quantiles.py": ("eval-structured", ("eval-paloma", "eval-mcq", "discretize")),
    "axes/mcq/multiple_choice.py": ("eval-mcq", NO_SAMPLING),
    "engines/loading/conditioned_model.py": ("generate-mcq", ("train-", "eval-mcq", "eval-structured", "build-")),
    "engines/training/fit.py": ("train-hard", ("generate", "score", "exact", "eval-")),
    "engines/sampling/vllm_engine.py": ("generate-mcq", ("train-", "score", "eval-", "build-")),
    "axes/mcq/report.py": ("report", (*NO_SAMPLING, "eval-", "partition", "reward")),
}


def digests_of(code: Code) -> dict[str, str]:
    return {name: code.digest(piece.module_name) for name, piece in PIECES.items() if name != CHECK}


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("code")
    shutil.copytree(ROOT / "pipeline", root / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    return root


@pytest.mark.parametrize("file", EDITED)
def test_an_edit_makes_stale_what_runs_the_code_and_not_what_does_not(copied, file):
    path, (stale, fresh) = copied / "pipeline" / file, EDITED[file]
    text, before = path.read_text(), digests_of(project_code())
    path.write_text(f"{text}\nEDITED = 1\n")
    found = {name for name, digest in digests_of(Code(copied)).items() if digest != before[name]}
    path.write_text(text)
    assert stale in found and not [name for name in found if name.startswith(fresh)]
