"""What a digest of code follows and what it leaves out, against a walk over compiled code by other means."""

import ast
import dis
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from types import CodeType

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


def test_an_entry_that_is_not_there(tmp_path, program):
    with pytest.raises(LookupError, match=r"there is no package\.stage\.nothing"):
        Code(tmp_path, "package", ()).digest("package.stage.nothing")


def test_exemptions_name_what_there_is():
    for name, reason in EXEMPT.items():
        place = ROOT.joinpath(*name.split("."))
        assert (place.is_dir() or place.with_suffix(".py").is_file()) and reason
    for module in ALTERNATIVES.values():
        assert ROOT.joinpath(*module.split(".")).with_suffix(".py").is_file()


# The walk that the digest is compared with: names as the compiler finds them, in bytecode instead of syntax.


class _Stripped(ast.NodeTransformer):
    """What no digest counts: annotations of functions, and what errors say."""

    def visit_FunctionDef(self, node):
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return self.generic_visit(node)

    def visit_Raise(self, node):
        if isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        return node


def bound_by_imports(code: CodeType) -> dict[str, str]:
    """Dotted targets of what the import statements of a piece of code bind, by local name."""
    found, module, path = {}, "", []
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            module, path = step.argval, []
        elif step.opname == "IMPORT_FROM":
            path = [step.argval]
        elif step.opname.startswith("STORE_") and module and isinstance(step.argval, str):
            found[step.argval] = ".".join([module, *path]) if path or step.argval not in module else module
            path = []
        elif step.opname == "POP_TOP":
            module = ""
    return found


def names_read(code: CodeType) -> Iterator[str]:
    """Dotted names that code reads from outside itself: ``a.b.c`` where attributes follow a global name."""
    chain: list[str] = []
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain.append(step.argval)
            continue
        if chain:
            yield ".".join(chain)
        reads = step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")
        chain = [step.argval] if reads else []
    if chain:
        yield ".".join(chain)


class Walk:
    """Definitions by module and name, with the dotted names that each reads."""

    def __init__(self):
        self.modules: dict[str, dict[str, set[str]]] = {}
        self.imports: dict[str, dict[str, str]] = {}

    def load(self, module: str) -> bool:
        place = ROOT.joinpath(*module.split("."))
        path = next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)
        if module in self.modules or path is None or not module.startswith("pipeline"):
            return module in self.modules
        defined: dict[str, set[str]] = {}
        self.modules[module], self.imports[module] = defined, {}
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.If) and ast.unparse(statement.test) in (
                "TYPE_CHECKING",
                "__name__ == '__main__'",
            ):
                continue
            code = compile(ast.Module([_Stripped().visit(statement)], []), str(path), "exec")
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self.imports[module] |= bound_by_imports(code)
                continue
            stored = [s.argval for s in dis.get_instructions(code) if s.opname == "STORE_NAME"]
            own = self._targets(code, {})
            for name in stored or [""]:
                defined.setdefault(name, set()).update(own)
        return True

    def _targets(self, code: CodeType, around: dict[str, str]) -> set[str]:
        """Dotted targets of what code and the code inside it read; "=name" is a name of its own module."""
        local = around | bound_by_imports(code)
        read = set(names_read(code))
        resolved = {name.replace(first, local[first], 1) for name in read if (first := name.split(".")[0]) in local}
        hidden = {*local, *code.co_varnames, *code.co_cellvars, *code.co_freevars}
        found = resolved | {f"={name}" for name in read if name.split(".")[0] not in hidden}
        inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
        return found.union(*(self._targets(each, local) for each in inner))

    def resolve(self, dotted: str) -> tuple[str, str | None] | None:
        parts = dotted.split(".")
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            if not self.load(module):
                continue
            if length == len(parts):
                return module, None
            name = parts[length]
            if name in self.modules[module]:
                return module, name
            if name in self.imports[module]:
                return self.resolve(".".join([self.imports[module][name], *parts[length + 1 :]]))
            return None
        return None

    def reach(self, entry: str, exempt: tuple[str, ...]) -> set[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        waiting = [entry]
        while waiting:
            place = self.resolve(waiting.pop())
            if place is None or any(place[0] == e or place[0].startswith(e + ".") for e in exempt):
                continue
            module, name = place
            parts = module.split(".")
            packages = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
            effects = [(package, "") for package in packages if self.load(package) and "" in self.modules[package]]
            members = [(module, each) for each in (self.modules[module] if name is None else [name])]
            for key in {*effects, *members} - found:
                found.add(key)
                for target in self.modules[key[0]][key[1]]:
                    waiting.append(f"{key[0]}.{target[1:]}" if target.startswith("=") else target)
        return found


def test_every_stage_reaches_what_compiled_code_names():
    walk, code = Walk(), Code()
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
