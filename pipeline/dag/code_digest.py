"""What a stage's code computes, as a digest: the syntax trees of the modules that its module reaches by imports.

Imports inside functions count, ``axis_modules("report")`` imports that module of every axis, and a name that only
annotations use is no import. Trees are without docstrings, annotations of functions, wording of raised errors, and
import statements (which count through what they bind): a comment or a moved file changes no digest.
"""

import ast
import functools
import hashlib
from pathlib import Path

from pipeline import PROJECT
from pipeline.artifacts.storage import sha256_json
from pipeline.dag.stages import STAGES

DIGITS = 16  # hexadecimal digits of a digest
EXEMPT = {
    "pipeline.errors": "the wording of errors, and which of them a full disk amounts to",
    "pipeline.command": "the command line: signals, exit status, what becomes of freed memory",
    "pipeline.config.params": "checks and hands on values that DVC tracks",
    "pipeline.config.view": "hands on values that DVC tracks",
    "pipeline.dag": "what it says of a stage is written in dvc.yaml, which DVC tracks",
    "pipeline.record": "provenance, tracking and progress bars describe a result and are no part of it",
    "pipeline.stages.training_distance": "shows how a training goes, and is no part of the adapter",
    "pipeline.artifacts.atomic": "how a finished file takes its place",
    "pipeline.artifacts.unavailable": "what stands in the place of an artifact that is not there",
    "pipeline.artifacts.locks": "which of two processes may run",
    "pipeline.sources.repository": "downloads files of a commit that is tracked, and checked by the hub's own hashes",
}
"""Modules and packages that cannot change a result, each with the reason."""
CHECK = "check-params"  # the stage that checks all others' code; it depends on every file
_SKIPPED = {"ctx", "kind", "type_comment", "type_params"}


class _Module(ast.NodeVisitor):
    """Digest of a module's tree without what computes nothing, and the dotted names of the imports that it reads."""

    def __init__(self, path: Path):
        self.imports: dict[str, str] = {}
        self.names: set[str] = set()
        self.axis_modules: set[str] = set()
        self.digest = hashlib.sha256(self.visit(ast.parse(path.read_bytes())).encode()).hexdigest()
        self.imports = {local: dotted for local, dotted in self.imports.items() if local in self.names}

    def generic_visit(self, node: ast.AST) -> str:
        fields = []
        for name, value in ast.iter_fields(node):
            if name not in _SKIPPED and value not in (None, []):
                members = value if isinstance(value, list) else [value]
                texts = (self.visit(member) if isinstance(member, ast.AST) else repr(member) for member in members)
                fields.append(f"{name}={','.join(filter(None, texts))}")
        return f"{type(node).__name__}({' '.join(fields)})"

    def visit_Import(self, node: ast.Import) -> str:
        self.imports |= {a.asname or a.name.partition(".")[0]: a.name for a in node.names}
        return ""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> str:
        self.imports |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        return ""

    def visit_If(self, node: ast.If) -> str:
        test = ast.unparse(node.test)
        return "" if "TYPE_CHECKING" in test or "__main__" in test else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> str:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return "" if is_text else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> str:
        return f"Raise({self.visit(node.exc.func)})" if isinstance(node.exc, ast.Call) else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> str:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> str:
        return node.arg

    def visit_JoinedStr(self, node: ast.JoinedStr) -> str:
        # Python 3.12 puts empty texts into format specifications.
        return f"JoinedStr({','.join(self.visit(part) for part in node.values if getattr(part, 'value', None) != '')})"

    def visit_Name(self, node: ast.Name) -> str:
        self.names.add(node.id)
        return node.id

    def visit_Call(self, node: ast.Call) -> str:
        if getattr(node.func, "id", "") == "axis_modules" and isinstance(node.args[0], ast.Constant):
            self.axis_modules.add(node.args[0].value)
        return self.generic_visit(node)


class Code:
    """The code of the package ``pipeline`` in the directory ``root``; each module is read once."""

    def __init__(self, root: Path = PROJECT):
        self._root = root
        self._modules: dict[str, _Module | None] = {}

    def _module(self, name: str) -> _Module | None:
        """The module of that dotted name, if it is one of those that count."""
        if name not in self._modules:
            place = self._root.joinpath(*name.split("."))
            path = next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
            exempt = f"{name}.".startswith(tuple(f"{item}." for item in EXEMPT)) or not name.startswith("pipeline")
            self._modules[name] = None if path is None or exempt else _Module(path)
        return self._modules[name]

    def _source(self, dotted: str) -> str:
        """The module that counts behind a dotted name: itself, or the one that it is in; empty for other names."""
        return next((name for name in (dotted, dotted.rpartition(".")[0]) if self._module(name)), "")

    def reach(self, entry: str) -> set[str]:
        """Modules that count for the module ``entry``, itself among them."""
        reached: set[str] = set()
        waiting = [entry]
        while waiting:
            name = waiting.pop()
            if name in reached or (module := self._module(name)) is None:
                continue
            reached.add(name)
            waiting += map(self._source, module.imports.values())
            for part in module.axis_modules:
                axes = [path.parent.name for path in (self._root / "pipeline" / "axes").glob("*/evaluate.py")]
                waiting += [f"pipeline.axes.{axis}{suffix}" for axis in axes for suffix in ("", f".{part}")]
        return reached

    def digest(self, entry: str) -> str:
        """Digest of what the module ``entry`` reaches. Raises LookupError where there is none."""
        if self._module(entry) is None:
            raise LookupError(f"there is no module {entry}")
        lines = []
        for module in map(self._module, self.reach(entry)):
            lines.append(module.digest)
            for local, dotted in module.imports.items():
                # A name of this package counts by the content of its module, wherever that is; others by themselves.
                if source := self._source(dotted):
                    dotted = f"{dotted.removeprefix(source)} {self._module(source).digest}"
                if not dotted.startswith("pipeline."):
                    lines.append(f"{module.digest} {local} {dotted}")
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:DIGITS]


@functools.cache
def project_code() -> Code:
    """The code of this checkout."""
    return Code()


def code_digests() -> dict[str, str]:
    """The content of code.yaml: a digest by stage, of its module or those of its parts."""
    digests = {}
    for name, stage in STAGES.items():
        if name != CHECK:
            modules = dict.fromkeys([stage.module_name, *(part.module_name for part in stage.parts)])
            own = [project_code().digest(module) for module in modules]
            digests[name] = own[0] if len(own) == 1 else sha256_json(own)[:DIGITS]
    return digests
