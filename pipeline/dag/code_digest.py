"""What a stage's code computes, as a digest that comments, formatting and moves between files do not change.

A stage reaches definitions: its ``main``, the functions, classes and constants that ``main`` names, what those name,
and so on, across the package. The digest covers the syntax of every definition that is reached, and for each name in
it, which definition or outside package the name stands for. So it changes where the meaning of one of them may have
changed, and only for the stages that reach it.

Left out, because it computes nothing: docstrings, annotations of functions, the wording of raised errors, and import
statements themselves, which count through the names that they bind. Left out with its reason: ``EXEMPT``.

Names are followed statically. ``module.name`` is one definition, a module that is passed around counts as a whole, and
what is imported for type checking alone is not followed. A method is part of its class, which is reached by whoever
makes an instance.
"""

import ast
import functools
import hashlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline import PROJECT

PACKAGE = "pipeline"
DIGITS = 16
"""Hexadecimal digits of a digest: enough to tell states of one stage's code apart, few enough to read."""

EXEMPT = {
    "pipeline.errors": "the wording of errors, and which of them a full disk amounts to",
    "pipeline.command": "the command line: signals, exit status, what becomes of freed memory",
    "pipeline.config.view": "hands on the values that DVC tracks",
    "pipeline.dag": "what it says of a stage is written in dvc.yaml, which DVC tracks",
    "pipeline.record": "provenance, tracking and progress bars describe a result and are no part of it",
    "pipeline.engines.loading.kept_models": "which model stays loaded for whoever asks for the same",
    "pipeline.engines.loading.token_count": "counts what a model reads, and changes nothing of it",
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

AXIS_MODULES = "axis_modules"
"""Function of the package's ``axes`` that imports a module of every axis. They count wherever it is called by this name
with a text, and so does each axis's AXIS: titles and splits are shown by whoever goes through the axes."""

_IMPORTS = (ast.Import, ast.ImportFrom)
_SKIPPED_FIELDS = {"annotation", "returns", "type_comment", "type_params", "kind", "ctx"}


@dataclass(frozen=True)
class Definition:
    """A function, class, constant or bare statement at the top level of a module.

    Attributes:
        module: Dotted name of the module.
        name: Its name; empty for the bare statements of the module, which run when it is imported.
        syntax: SHA-256 of its normalised syntax.
        names: What each outside name in it stands for, e.g. ``{"np.mean": "numpy.mean"}``.
    """

    module: str
    name: str
    syntax: str
    names: Mapping[str, str]


@dataclass
class _Syntax:
    """Collects the normalised syntax of a piece of code and the names that it reads."""

    parts: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def add(self, node: ast.AST, in_class: bool = False, in_chain: bool = False) -> None:
        """Add a node.

        Args:
            node: The node.
            in_class: Annotations count there, as fields of dataclasses are made from them.
            in_chain: It is the beginning of a dotted name, which counts as a whole.
        """
        kind = type(node)
        if kind in _IMPORTS or _is_text(node):
            return
        if kind is ast.Raise and isinstance(node.exc, ast.Call):
            node = ast.Raise(node.exc.func)
        elif kind is ast.JoinedStr:
            # Python 3.12 puts empty texts into format specifications.
            node = ast.JoinedStr([part for part in node.values if getattr(part, "value", None) != ""])
        self.parts.append(kind.__name__)
        if kind is ast.Constant:
            self.parts.append(f"{type(node.value).__name__} {node.value!r}")
            return
        chain = dotted_name(node)
        if chain and not in_chain:
            self.names.add(chain)
        if kind is ast.Call and dotted_name(node.func) == AXIS_MODULES and isinstance(node.args[0], ast.Constant):
            self.names.add(f"{AXIS_MODULES}.{node.args[0].value}")
        for name in node._fields:
            if name in _SKIPPED_FIELDS and not (name == "annotation" and in_class and kind is ast.AnnAssign):
                continue
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                self.parts.append(name)
                self.add(value, in_chain=bool(chain))
            elif isinstance(value, list):
                if not value:
                    continue
                self.parts.append(f"{name}[")
                for member in value:
                    if isinstance(member, ast.AST):
                        self.add(member, kind is ast.ClassDef)
                    else:
                        self.parts.append(repr(member))
                self.parts.append("]")
            elif value is not None:
                self.parts.append(f"{name} {value!r}")

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.parts).encode()).hexdigest()


def _is_text(node: ast.AST) -> bool:
    """Whether a node is a docstring, or another text that stands by itself."""
    return type(node) is ast.Expr and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def engines_besides(kind: str) -> list[str]:
    """Modules of the engines that do not run where ``engine.kind`` is ``kind``."""
    return [module for name, module in ALTERNATIVES.items() if name != kind]


def dotted_name(node: ast.AST) -> str:
    """``a.b.c`` of attributes of a name that is read; empty for anything else."""
    parts = []
    while type(node) is ast.Attribute:
        parts.append(node.attr)
        node = node.value
    if type(node) is ast.Name and type(node.ctx) is ast.Load:
        return ".".join([node.id, *reversed(parts)])
    return ""


def _bound(statement: ast.stmt) -> list[str]:
    """Names that a statement at the top level defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    names = (node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]


def _statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and those in it, as ``ast.walk`` gives them, without the expressions, which are most of the nodes."""
    waiting = deque([node])
    while waiting:
        node = waiting.popleft()
        yield node
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                waiting.extend(inner)


def _runs(statement: ast.stmt) -> bool:
    """Whether a statement at the top level does something when the module is imported."""
    if not isinstance(statement, ast.If):
        return not _is_text(statement)
    condition = ast.unparse(statement.test)
    return "TYPE_CHECKING" not in condition and "__main__" not in condition


class Module:
    """The definitions of one file, and what its imports bind."""

    def __init__(self, name: str, path: Path, source: bytes):
        """Parse ``source``, the content of ``path``. Raises SyntaxError."""
        self.name = name
        package = path.name == "__init__.py"
        self._parent = name if package else name.rpartition(".")[0]
        statements = [statement for statement in ast.parse(source, filename=str(path)).body if _runs(statement)]
        self.imports = self._imports(statements)
        by_name: dict[str, list[ast.stmt]] = {}
        for statement in statements:
            if not isinstance(statement, ast.Import | ast.ImportFrom):
                for bound in _bound(statement) or [""]:
                    by_name.setdefault(bound, []).append(statement)
        # All at once: trees of syntax that stay for later take longer in collections of garbage than to go through.
        self._by_name = {bound: self._definition(bound, by_name) for bound in by_name}

    def _imports(self, statements: Iterable[ast.AST]) -> dict[str, str]:
        """What import statements bind, at any depth: dotted targets by local name."""
        found = {}
        for node in (inner for statement in statements for inner in _statements_in(statement)):
            if isinstance(node, ast.Import):
                found |= {
                    a.asname or a.name.partition(".")[0]: a.name if a.asname else a.name.partition(".")[0]
                    for a in node.names
                }
            elif isinstance(node, ast.ImportFrom):
                above = ".".join(self._parent.split(".")[: len(self._parent.split(".")) - node.level + 1])
                source = ".".join(filter(None, [above if node.level else "", node.module]))
                found |= {a.asname or a.name: f"{source}.{a.name}" for a in node.names}
        return found

    @property
    def names(self) -> Collection[str]:
        """Names that it defines, "" for its bare statements."""
        return self._by_name.keys()

    def definitions(self, name: str | None) -> list[Definition]:
        """The definition of a name, or with None all of them."""
        return [*self._by_name.values()] if name is None else [self._by_name[name]]

    def effects(self, module_named: Callable[[str], "Module | None"]) -> list[Definition]:
        """What runs when the module is imported: its bare statements, and those of the packages that it is in."""
        parts = self.name.split(".")
        above = (module_named(".".join(parts[:length])) for length in range(1, len(parts) + 1))
        return [module._by_name[""] for module in above if module is not None and "" in module.names]

    def _definition(self, name: str, by_name: Mapping[str, list[ast.stmt]]) -> Definition:
        syntax = _Syntax()
        for statement in by_name[name]:
            syntax.add(statement)
        names = {}
        for chain in syntax.names:
            first, _, rest = chain.partition(".")
            if first in self.imports:
                names[chain] = ".".join(filter(None, [self.imports[first], rest]))
            elif first in by_name and first != name:
                names[chain] = f"{self.name}.{chain}"
        return Definition(self.name, name, syntax.digest, names)


# Definitions follow from the text alone: whoever looks at the code again parses only what has changed.
_module = functools.cache(Module)


class Code:
    """The package's source, parsed as far as it is reached.

    Args:
        root: Directory that holds the package.
        package: Its name.
        exempt: Dotted names of modules and packages that do not count.
    """

    def __init__(self, root: Path = PROJECT, package: str = PACKAGE, exempt: Iterable[str] = EXEMPT):
        self._root, self._package, self._exempt = root, package, tuple(f"{name}." for name in exempt)
        self._modules: dict[str, Module | None] = {}
        self._resolved: dict[str, tuple[Module, str | None] | None] = {}

    def module(self, name: str) -> Module | None:
        """The module of that dotted name; None where there is none."""
        if name not in self._modules:
            place = self._root.joinpath(*name.split("."))
            path = next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)
            ours = path is not None and name.split(".")[0] == self._package
            self._modules[name] = _module(name, path, path.read_bytes()) if ours else None
        return self._modules[name]

    def _counts(self, module: str, leave_out: Collection[str]) -> bool:
        return not f"{module}.".startswith((*self._exempt, *(f"{name}." for name in leave_out)))

    def resolve(self, dotted: str) -> tuple[Module, str | None] | None:
        """The module and the name in it that a dotted name stands for; None in the place of the name is all of it.

        Names of other packages give None, as does what is not at the top level of its module.
        """
        if dotted not in self._resolved:
            self._resolved[dotted] = self._resolve(dotted)
        return self._resolved[dotted]

    def _resolve(self, dotted: str) -> tuple[Module, str | None] | None:
        parts = dotted.split(".")
        for length in range(len(parts), 0, -1):
            module = self.module(".".join(parts[:length]))
            if module is None:
                continue
            if length == len(parts):
                return module, None
            name, rest = parts[length], parts[length + 1 :]
            if name in module.imports and name not in module.names:
                return self.resolve(".".join([module.imports[name], *rest]))
            return (module, name) if name in module.names else None
        return None

    def reach(self, entry: str, leave_out: Collection[str] = ()) -> dict[tuple[str, str], Definition]:
        """Every definition that ``entry`` reaches, by module and name.

        Args:
            entry: Where to start, e.g. "pipeline.stages.generate.main".
            leave_out: Modules that do not count, besides those that are exempt.

        Raises:
            LookupError: There is no such definition.
        """
        if self.resolve(entry) is None:
            raise LookupError(f"there is no {entry}")
        found: dict[tuple[str, str], Definition] = {}
        waiting, seen = [entry], {entry}
        while waiting:
            place = self.resolve(waiting.pop())
            if place is None or not self._counts(place[0].name, leave_out):
                continue
            module, name = place
            for definition in (*module.effects(self.module), *module.definitions(name)):
                key = (definition.module, definition.name)
                if key not in found:
                    found[key] = definition
                    targets = {module for name in definition.names.values() for module in self._followed(name)}
                    waiting.extend(targets - seen)
                    seen |= targets
        return found

    def _followed(self, dotted: str) -> list[str]:
        """What a name leads to: itself, or what AXIS_MODULES imports of all axes, and what they declare."""
        before, called, part = dotted.rpartition(f".{AXIS_MODULES}.")
        if not called:
            return [dotted]
        axes = [path.parent.name for path in self._root.joinpath(*before.split(".")).glob("*/evaluate.py")]
        return [f"{before}.{AXIS_MODULES}", *(f"{before}.{axis}.{name}" for axis in axes for name in (part, "AXIS"))]

    def digest(self, entry: str, leave_out: Collection[str] = ()) -> str:
        """Digest of what ``entry`` reaches, whichever modules it is in. Arguments and errors as for ``reach``."""
        lines = []
        for definition in self.reach(entry, leave_out).values():
            meanings = (f"{name}={self._meaning(target, leave_out)}" for name, target in definition.names.items())
            lines.append(" ".join([definition.syntax, *sorted(meanings)]))
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:DIGITS]

    def _meaning(self, dotted: str, leave_out: Collection[str]) -> str:
        """What tells one meaning of a name from another: the definition's syntax, or the name in its package."""
        place = self.resolve(dotted)
        if place is None:
            return "" if dotted.split(".")[0] == self._package else dotted
        module, name = place
        if not self._counts(module.name, leave_out):
            return ""
        return "module" if name is None else module.definitions(name)[0].syntax


@functools.cache
def project_code() -> Code:
    """The code of this checkout, as it was when it was first asked for."""
    return Code()
