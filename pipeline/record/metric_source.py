"""Where the code names a metric."""

import ast
import itertools
from pathlib import Path

CORE = Path(__file__).parents[1] / "core"


def _literals(node: ast.AST) -> set[str]:
    return {item.value for item in ast.walk(node) if isinstance(item, ast.Constant) and isinstance(item.value, str)}


def _definitions(path: Path, name: str) -> list[tuple[str, str]]:
    """Name and first line of the docstring of a module's functions and constants that hold a text."""
    found = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and name in _literals(node):
            found.append((node.name, (ast.get_docstring(node) or "").split("\n")[0]))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and name in _literals(node):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found.append((ast.unparse(target), ""))
    return found


def metric_sources(metric: str) -> list[dict[str, str]]:
    """Functions and constants that hold the metric's name: in the modules of metrics, else elsewhere in the core.

    Names that are put together (``NAME_without_bos``) are found by their first part.

    Returns:
        File, name and first line of the docstring of each.
    """
    if not metric:
        return []
    names = dict.fromkeys((metric, metric.removesuffix("_without_bos"), metric.removesuffix("_difference")))
    for name, paths in itertools.product(names, (sorted(CORE.glob("metrics/*.py")), sorted(CORE.glob("*.py")))):
        found = [
            {"file": path.relative_to(CORE.parents[1]).as_posix(), "name": definition, "says": says}
            for path in paths
            for definition, says in _definitions(path, name)
        ]
        if found:
            return found
    return []
