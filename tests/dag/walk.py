"""A walk over compiled code, which the digests of code are compared with.

Names are found as the compiler finds them: in bytecode instead of syntax.
"""

import ast
import dis
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType

from pipeline.axes import AXES
from tests.conftest import ROOT


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


def bound_by_imports(steps: list[dis.Instruction]) -> dict[str, str]:
    """Dotted targets of what the import statements of a piece of code bind, by local name."""
    found, module, path = {}, "", []
    for step in steps:
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


def names_read(steps: list[dis.Instruction]) -> Iterator[str]:
    """Dotted names that code reads from outside itself: ``a.b.c`` where attributes follow a global name."""
    chain: list[str] = []
    for step in steps:
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain.append(step.argval)
            continue
        if chain:
            yield ".".join(chain)
        reads = step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")
        chain = [step.argval] if reads else []
    if chain:
        yield ".".join(chain)


def axis_modules_named(steps: list[dis.Instruction]) -> set[str]:
    """``axis_modules.PART`` of every call ``axis_modules("PART")``."""
    pairs = pairwise(step.argval for step in steps if step.opname != "PUSH_NULL")
    return {f"axis_modules.{part}" for called, part in pairs if called == "axis_modules" and isinstance(part, str)}


class Walk:
    """Definitions by module and name, with the dotted names that each reads."""

    def __init__(self):
        self.modules: dict[str, dict[str, set[str]]] = {}
        self.imports: dict[str, dict[str, str]] = {}
        self.resolved: dict[str, tuple[str, str | None] | None] = {}

    def load(self, module: str) -> bool:
        if module in self.modules or not module.startswith("pipeline"):
            return module in self.modules
        place = ROOT.joinpath(*module.split("."))
        path = next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)
        if path is None:
            return False
        defined: dict[str, set[str]] = {}
        self.modules[module], self.imports[module] = defined, {}
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.If) and ast.unparse(statement.test) in (
                "TYPE_CHECKING",
                "__name__ == '__main__'",
            ):
                continue
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # Documentation, of the module or of a constant.
            code = compile(ast.Module([_Stripped().visit(statement)], []), str(path), "exec")
            steps = list(dis.get_instructions(code))
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self.imports[module] |= bound_by_imports(steps)
                continue
            stored = [step.argval for step in steps if step.opname == "STORE_NAME"]
            own = self._targets(code, steps, {})
            for name in stored or [""]:
                defined.setdefault(name, set()).update(own)
        return True

    def _targets(self, code: CodeType, steps: list[dis.Instruction], around: dict[str, str]) -> set[str]:
        """Dotted targets of what code and the code inside it read; "=name" is a name of its own module."""
        local = around | bound_by_imports(steps)
        read = set(names_read(steps)) | axis_modules_named(steps)
        resolved = {name.replace(first, local[first], 1) for name in read if (first := name.split(".")[0]) in local}
        hidden = {*local, *code.co_varnames, *code.co_cellvars, *code.co_freevars}
        found = resolved | {f"={name}" for name in read if name.split(".")[0] not in hidden}
        inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
        return found.union(*(self._targets(each, list(dis.get_instructions(each)), local) for each in inner))

    def resolve(self, dotted: str) -> tuple[str, str | None] | None:
        if dotted not in self.resolved:
            self.resolved[dotted] = self._resolve(dotted)
        return self.resolved[dotted]

    def _resolve(self, dotted: str) -> tuple[str, str | None] | None:
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

    def followed(self, dotted: str) -> list[str]:
        """A name, or for those of ``axis_modules_named`` the module of every axis and what the axis declares."""
        function, called, part = dotted.rpartition(".axis_modules.")
        if not called:
            return [dotted]
        axes, _ = self.resolve(f"{function}.axis_modules")
        return [f"{axes}.{axis}.{name}" for axis in AXES for name in (part, "AXIS")]

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
                    waiting += self.followed(f"{key[0]}.{target[1:]}" if target.startswith("=") else target)
        return found
