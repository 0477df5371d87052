"""What a digest of code follows and what it leaves out, against a walk over compiled code by other means."""

import shutil
import subprocess
import sys
import textwrap

import pytest

from pipeline.dag.code_digest import ALTERNATIVES, EXEMPT, Code, engines_besides
from pipeline.dag.stages import STAGES
from tests.conftest import ROOT

PROGRAM = {
    "__init__": "",
    "stage": '''
        """What the stage does."""
        import numpy as np
        from package import laws
        from package.draws import draw
        from package.messages import warn

        LIMIT = 10

        def main(count: int) -> list:
            """Draw numbers."""
            from package.lazy import finish

            if count > LIMIT:
                raise ValueError(f"{count} is too many, {warn()}")
            return finish([laws.mean(draw(np.pi)) for _ in range(count)])
    ''',
    "laws": """
        from package.tables import WIDTH

        def mean(values):
            return sum(values) / WIDTH

        def median(values):
            return sorted(values)[0]
    """,
    "draws": """
        class Drawer:
            size: int = 3

            def draw(self, scale):
                return [scale] * self.size

        def draw(scale):
            return Drawer().draw(scale)
    """,
    "tables": "WIDTH = 4\nHEIGHT = 5\n",
    "lazy": "def finish(values):\n    return values\n",
    "messages": "def warn():\n    return 'really'\n",
}


@pytest.fixture
def program(tmp_path):
    """A package of a few modules; a function that edits one of them and returns the stage's digest."""
    package = tmp_path / "package"
    package.mkdir()
    for name, text in PROGRAM.items():
        (package / f"{name}.py").write_text(textwrap.dedent(text))

    def digest(module: str = "stage", old: str = "", new: str = "", exempt: tuple[str, ...] = ()) -> str:
        path = package / f"{module}.py"
        before = path.read_text()
        assert old in before
        path.write_text(before.replace(old, new, 1) if old else before)
        try:
            return Code(tmp_path, "package", exempt).digest("package.stage.main")
        finally:
            path.write_text(before)

    return digest


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("stage", '"""Draw numbers."""', '"""Another docstring."""'),
        ("stage", "count: int) -> list", "count: float) -> tuple"),
        ("stage", "is too many", "are far too many"),
        ("stage", "LIMIT = 10", "# The largest number.\nLIMIT = 10"),
        ("stage", "    if count > LIMIT", "    # A comment.\n\n    if (count > LIMIT)"),
        (
            "stage",
            "import numpy as np\nfrom package import laws",
            "from package import laws\nimport os\nimport numpy as np",
        ),
        ("stage", "LIMIT = 10", 'LIMIT = 10\n"""Documented."""'),
        ("laws", "sorted(values)[0]", "sorted(values)[1]"),
        ("laws", "sum(values) / WIDTH", "(sum(values)\n        / WIDTH)"),
        ("tables", "HEIGHT = 5", "HEIGHT = 6"),
        ("messages", "'really'", "'truly'"),
    ],
)
def test_what_computes_nothing_or_is_not_reached_changes_nothing(program, module, old, new):
    assert program(module, old, new) == program()


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("stage", "LIMIT = 10", "LIMIT = 11"),
        ("stage", "count > LIMIT", "count >= LIMIT"),
        ("stage", "raise ValueError", "raise TypeError"),
        ("stage", "import numpy as np", "import math as np"),
        ("stage", "from package.draws import draw", "from package.lazy import finish as draw"),
        ("laws", "sum(values) / WIDTH", "sum(values) * WIDTH"),
        ("tables", "WIDTH = 4", "WIDTH = 3"),
        ("draws", "self.size", "(self.size + 1)"),
        ("draws", "size: int = 3", "size: int = 4"),
        ("draws", "size: int = 3", "size: float = 3"),
        ("lazy", "return values", "return values[1:]"),
        ("tables", "WIDTH = 4", "import os\nWIDTH = 4\nos.environ.clear()"),
        ("__init__", "", "import os\nos.environ['A'] = 'b'\n"),
    ],
)
def test_a_change_of_meaning_changes_the_digest(program, tmp_path, module, old, new):
    before = program()
    if not old:
        (tmp_path / "package" / f"{module}.py").write_text(new)
    assert program(module, old, new if old else "") != before


def test_code_may_move(program, tmp_path):
    """The same functions in another module are the same code: a new layout of files runs nothing again."""
    before, package = program(), tmp_path / "package"
    (package / "elsewhere").mkdir()
    (package / "elsewhere" / "__init__.py").write_text("")
    (package / "laws.py").rename(package / "elsewhere" / "laws.py")
    (package / "draws.py").rename(package / "elsewhere" / "numbers.py")
    stage = package / "stage.py"
    text = stage.read_text().replace("from package import laws", "from package.elsewhere import laws")
    stage.write_text(text.replace("from package.draws", "from package.elsewhere.numbers"))
    assert program() == before


def test_what_is_exempt_does_not_count(program, tmp_path):
    before = program(exempt=("package.lazy",))
    assert program("lazy", "return values", "return values[1:]", exempt=("package.lazy",)) == before != program()


AXES = {
    "__init__": "def axis_modules(part):\n    return __import__(part)\n",
    "one/__init__": "AXIS = 'One'\n",
    "one/evaluate": "def main():\n    return 1\n",
    "one/report": "REPORT = 'a table'\n",
    "shared/__init__": "AXIS = 'No axis'\n",
    "shared/report": "REPORT = 'no report'\n",
}


@pytest.mark.parametrize(
    ("module", "text", "counts"),
    [
        ("one/report", "REPORT = 'a figure'\n", True),
        ("one/__init__", "AXIS = 'Another title'\n", True),
        ("one/evaluate", "def main():\n    return 2\n", False),
        ("shared/report", "REPORT = 'another'\n", False),
        ("shared/__init__", "AXIS = 'Another title'\n", False),
        ("two", None, True),
    ],
)
def test_modules_of_all_axes_count_for_who_goes_through_them(tmp_path, module, text, counts):
    package = tmp_path / "package"
    for name, content in {f"axes/{name}": content for name, content in AXES.items()}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / f"{name}.py").write_text(content)
    (package / "__init__.py").write_text("")
    stage = "from package.axes import axis_modules\n\ndef main():\n    return axis_modules('report')\n"
    (package / "stage.py").write_text(stage)
    before = Code(tmp_path, "package", ()).digest("package.stage.main")
    if text is None:
        shutil.copytree(package / "axes" / "one", package / "axes" / module)
        (package / "axes" / module / "report.py").write_text("REPORT = 'of its own'\n")
    else:
        (package / "axes" / f"{module}.py").write_text(text)
    assert (Code(tmp_path, "package", ()).digest("package.stage.main") != before) == counts


def test_an_entry_that_is_not_there(tmp_path, program):
    with pytest.raises(LookupError, match=r"there is no package\.stage\.nothing"):
        Code(tmp_path, "package", ()).digest("package.stage.nothing")


def test_exemptions_name_what_there_is():
    for name, reason in EXEMPT.items():
        place = ROOT.joinpath(*name.split("."))
        assert (place.is_dir() or place.with_suffix(".py").is_file()) and reason
    for module in ALTERNATIVES.values():
        assert ROOT.joinpath(*module.split(".")).with_suffix(".py").is_file()


def test_every_stage_reaches_what_compiled_code_names(walk):
    code = Code()
    for stage in STAGES.values():
        others = engines_besides("transformers")
        found = set(code.reach(stage.entry, others))
        expected = walk.reach(stage.entry, (*EXEMPT, *others))
        assert found - expected == set() and expected - found == set(), stage.name


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_digests_are_the_same_on_every_python(version, tmp_path):
    python = shutil.which(f"python{version}")
    # A version manager may put programs of the name on the PATH that start nothing.
    works = python is not None and subprocess.run([python, "-V"], capture_output=True).returncode == 0
    if not works or sys.version_info[:2] == tuple(map(int, version.split("."))):
        pytest.skip(f"there is no other Python {version} on the PATH")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom pipeline.dag.code_digest import Code\n"
        "code = Code()\nfor entry in sys.argv[2:]: print(code.digest(entry))\n"
    )
    entries = [stage.entry for stage in STAGES.values()]
    result = subprocess.run([python, "-c", program, str(ROOT), *entries], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [Code().digest(entry) for entry in entries]
