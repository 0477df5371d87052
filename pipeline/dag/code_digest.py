"""What a stage's code computes, as a digest: the syntax trees of the modules that its module reaches by imports.

Imports inside functions count, ``axis_modules("report")`` is an import of that module of every axis, and a name that
nothing but annotations use is none. Left out of a tree, because they compute nothing: docstrings, annotations of
functions, wording of raised errors, and import statements themselves, which count through what they bind. So a comment
or a moved file changes no digest.
"""

import ast
import functools
import hashlib
import itertools
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pipeline import PROJECT
from pipeline.artifacts.storage import sha256_json
from pipeline.dag.declaration import Stage
from pipeline.dag.stages import STAGES

DIGITS = 16
"""Hexadecimal digits of a digest: enough to tell states of one stage's code apart, few enough to read."""
EXEMPT = {
    "pipeline.errors": "the wording of errors, and which of them a full disk amounts to",
    "pipeline.command": "the command line: signals, exit status, what becomes of freed memory",
    "pipeline.config.params": "checks and hands on values that DVC tracks",
    "pipeline.config.view": "hands on values that DVC tracks",
    "pipeline.dag": "what it says of a stage is written in dvc.yaml, which DVC tracks",
    "pipeline.record": "provenance, tracking and progress bars describe a result and are no part of it",
    "pipeline.artifacts.atomic": "how a finished file takes its place",
    "pipeline.artifacts.unavailable": "what stands in the place of an artifact that is not there",
    "pipeline.artifacts.locks": "which of two processes may run",
    "pipeline.sources.repository": "downloads files of a commit that is tracked, and checked by the hub's own hashes",
}
"""What cannot change a result, each with its reason: modules, or packages with all that is in them."""
ALTERNATIVES = {
    "transformers": "pipeline.engines.sampling.transformers_engine",
    "vllm": "pipeline.engines.sampling.vllm_engine",
    "openai": "pipeline.engines.sampling.openai_engine",
}
"""Of these modules a stage runs the one that ``engine.kind`` names; the others do not count."""
CHECK = "check-params"
"""The stage that checks all others' code; its own needs no digest, because it depends on every file."""


def engines_besides(kind: str) -> tuple[str, ...]:
    """Modules of the engines that do not run where ``engine.kind`` is ``kind``."""
    return tuple(module for name, module in ALTERNATIVES.items() if name != kind)


_SKIPPED = {"ctx", "kind", "type_comment", "type_params"}


class _Module(ast.NodeVisitor):
    """The text of a module's tree without what computes nothing, and what its imports bind, as dotted names by name."""

    def __init__(self, path: Path):
        self.imports: dict[str, str] = {}
        self.names: set[str] = set()
        self.axis_modules: set[str] = set()
        self.digest = hashlib.sha256(self.visit(ast.parse(path.read_bytes())).encode()).hexdigest()

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
    """The code of the package ``pipeline`` in the directory ``root``, as it was when it was first looked at."""

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

    def _imported(self, dotted: str) -> list[str]:
        """Modules behind an imported name: itself, or the one that it is in and those that it comes there from."""
        if self._module(dotted):
            return [dotted]
        source, _, name = dotted.rpartition(".")
        module = self._module(source)
        if module is None:
            return []
        return [source, *(self._imported(module.imports[name]) if name in module.imports else ())]

    def _bindings(self, module: _Module) -> dict[str, list[str]]:
        """Modules of this package behind every imported name that a module reads; none for names from elsewhere."""
        return {name: self._imported(module.imports[name]) for name in sorted(module.names & module.imports.keys())}

    def reach(self, entry: str, leave_out: Collection[str] = ()) -> set[str]:
        """Modules that count for the module ``entry``, itself among them, but for those in ``leave_out``."""
        found: set[str] = set()
        waiting = [entry]
        while waiting:
            name = waiting.pop()
            if name in found or name in leave_out or (module := self._module(name)) is None:
                continue
            found.add(name)
            waiting += itertools.chain.from_iterable(self._bindings(module).values())
            for part in module.axis_modules:
                axes = [path.parent.name for path in (self._root / "pipeline" / "axes").glob("*/evaluate.py")]
                waiting += [f"pipeline.axes.{axis}{suffix}" for axis in axes for suffix in ("", f".{part}")]
        return found

    def digest(self, entry: str, leave_out: Collection[str] = ()) -> str:
        """Digest of what the module ``entry`` reaches. Raises LookupError where there is none."""
        if self._module(entry) is None:
            raise LookupError(f"there is no module {entry}")
        lines = []
        for name in self.reach(entry, leave_out):
            module = self._modules[name]
            lines.append(module.digest)
            for local, behind in self._bindings(module).items():
                # A name of this package by what it stands for, wherever that is; another by where it is.
                dotted = module.imports[local]
                own = [self._modules[other].digest for other in behind if other not in leave_out]
                name = "" if self._module(dotted) or not own else dotted.rpartition(".")[2]
                meaning = [name, *own] if dotted.startswith("pipeline.") else [dotted]
                lines.append(" ".join([module.digest, local, *meaning]))
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:DIGITS]


@functools.cache
def project_code() -> Code:
    """The code of this checkout."""
    return Code()


def code_digests() -> dict[str, Any]:
    """The content of code.yaml: a digest by stage and its parts; by engine, too, for a stage that samples with one."""

    def digest(stage: Stage, leave_out: Collection[str] = ()) -> str:
        modules = dict.fromkeys([stage.module_name, *(part.module_name for part in stage.parts)])
        digests = [project_code().digest(module, leave_out) for module in modules]
        return digests[0] if len(digests) == 1 else sha256_json(digests)[:DIGITS]

    return {
        name: {kind: digest(stage, engines_besides(kind)) for kind in ALTERNATIVES}
        if stage.runs_engine
        else digest(stage)
        for name, stage in STAGES.items()
        if name != CHECK
    }
