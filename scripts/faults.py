"""Puts faults into modules, one at a time, and says which of them the tests do not notice.

``make test-faults MODULES="pipeline/core/tries/trie.py ..."``. It works in a clone of the last commit. Of each
module it draws some faults (a condition inverted, an argument left out, two arguments swapped, an operator or a
constant changed) and runs the test files that name the module or lie in its folder of ``tests/``.
"""

import argparse
import ast
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).parents[1]
SWAPPED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.FloorDiv: "/", ast.Mod: "//", ast.Pow: "*", ast.And: "or", ast.Or: "and",
}  # fmt: skip
WORDS = ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom
TIMEOUT_SECONDS = 900


def parts_that_compute(tree: ast.AST) -> Iterator[ast.AST]:
    """All expressions but those of messages, annotations, decorators and imports."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, WORDS):
                yield child
                yield from parts_that_compute(child)


def replacement(node: ast.AST, source: str) -> Iterator[tuple[str, str]]:
    """Faults at one node: what is changed, and the node's new text."""

    def part(child: ast.AST) -> str:
        return f"({ast.get_source_segment(source, child)})"

    match node:
        case ast.Compare(ops=[operator], left=left, comparators=[right]) if type(operator) in SWAPPED:
            yield "comparison", f"{part(left)} {SWAPPED[type(operator)]} {part(right)}"
        case ast.BinOp(op=operator, left=left, right=right) if type(operator) in SWAPPED:
            yield "operator", f"{part(left)} {SWAPPED[type(operator)]} {part(right)}"
        case ast.BoolOp(op=operator, values=values):
            yield "condition", f" {SWAPPED[type(operator)]} ".join(part(value) for value in values)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "condition", f"{part(orelse)} if {part(test)} else {part(body)}"
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "sign", part(operand)
        case ast.Constant(value=bool() as value):
            yield "constant", str(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", repr(value + 1)
        case ast.Call(func=function, args=arguments, keywords=keywords):
            pieces = [part(argument) for argument in arguments if not isinstance(argument, ast.Starred)]
            named = [ast.get_source_segment(source, keyword) for keyword in keywords]
            if len(pieces) != len(arguments):
                return
            for i in [i for i, keyword in enumerate(keywords) if keyword.arg != "strict"]:
                rest = ", ".join(pieces + named[:i] + named[i + 1 :])
                yield f"without {named[i]}", f"{part(function)}({rest})"
            if len(pieces) > 1:
                yield "arguments swapped", f"{part(function)}({', '.join([pieces[1], pieces[0], *pieces[2:], *named])})"


def faults(source: str) -> list[tuple[int, str, str]]:
    """All faults of a module: line, description and the module's whole new text."""
    encoded = source.encode()
    starts = [0]
    for line in encoded.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    result = []
    for node in parts_that_compute(ast.parse(source)):
        text = ast.get_source_segment(source, node) if isinstance(node, ast.expr) else None
        if text is None:
            continue
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        for kind, new in replacement(node, source):
            changed = (encoded[:begin] + f"({new})".encode() + encoded[end:]).decode()
            try:
                ast.parse(changed)
            except SyntaxError:  # Inside an f-string or a pattern parentheses are not allowed.
                continue
            result.append((node.lineno, f"{kind}: {' '.join(text.split())[:60]}", changed))
    return result


def tests_of(module: Path) -> list[str]:
    """Test files that name the module, those of the folder that mirrors its own, and those named after its folder, as
    the tests of an axis's stages are."""
    dotted = ".".join(module.with_suffix("").parts)
    folder, name = Path("tests", *module.parent.parts[1:]), f"test_{module.parent.name}"
    return [
        str(path)
        for path in sorted(Path("tests").rglob("test_*.py"))
        if "real" not in path.parts and (path.parent == folder or path.stem == name or dotted in path.read_text())
    ]


def tests_pass(clone: Path, tests: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        run = subprocess.run(command, cwd=clone, capture_output=True, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0


def try_faults(clone: Path, module: Path, number: int, seed: int) -> Iterator[tuple[str, bool]]:
    """Draws faults of a module: where and what each one is, and whether the tests notice it."""
    tests = tests_of(module)
    if not tests or not tests_pass(clone, tests):
        sys.exit(f"{module}: {'its tests fail without a fault' if tests else 'no test names it'}")
    source = (clone / module).read_text()
    possible = faults(source)
    for line, description, changed in random.Random(f"{seed} {module}").sample(possible, min(number, len(possible))):
        (clone / module).write_text(changed)
        yield f"{module}:{line}  {description}", not tests_pass(clone, tests)
    (clone / module).write_text(source)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="+", type=Path, help="files below pipeline/")
    parser.add_argument("--faults", type=int, default=3, help="faults of each module (3)")
    parser.add_argument("--seed", type=int, default=0, help="which faults are drawn (0)")
    arguments = parser.parse_args()
    for module in arguments.modules:
        if not module.is_file() or module.parts[0] != "pipeline":
            parser.error(f"{module} is no file below pipeline/")
    outcomes = []
    with tempfile.TemporaryDirectory() as directory:
        clone = Path(directory, "clone")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        for module in tqdm(arguments.modules, disable=None):
            for fault, noticed in try_faults(clone, module, arguments.faults, arguments.seed):
                print(f"{'noticed    ' if noticed else 'NOT NOTICED'}  {fault}", flush=True)
                outcomes.append(noticed)
    print(f"{sum(outcomes)} of {len(outcomes)} faults noticed")
    return 0 if sum(outcomes) >= 0.95 * len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
