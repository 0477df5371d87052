"""Imports go one way: stages -> engines -> core; core knows no files, configuration or transformers."""

import ast
import subprocess
import sys
from pathlib import Path

import networkx
import pytest

from pipeline.dag.stages import STAGES
from tests.conftest import ROOT

PIPELINE = ROOT / "pipeline"
MODULES = sorted(PIPELINE.rglob("*.py"))
CORE_AVOIDS = (
    *("config", "artifacts", "axes", "dag", "engines", "stages", "report", "record", "sources", "estimates", "runs"),
    *("sweep", "publish", "inference"),
)
FORBIDDEN = {
    "core": (
        *(f"pipeline.{room}" for room in CORE_AVOIDS),
        *("transformers", "peft", "omegaconf", "hydra", "wandb", "dvc", "pathlib", "os"),
    ),
    "engines": tuple(
        f"pipeline.{room}" for room in ("stages", "report", "record", "dag", "sweep", "runs", "publish", "inference")
    ),
    "report": ("pipeline.stages", "pipeline.engines", "pipeline.publish", "transformers", "torch"),
    "artifacts": ("pipeline.engines", "pipeline.stages", "pipeline.report", "pipeline.dag"),
    "config": ("pipeline.artifacts", "pipeline.engines", "pipeline.stages", "pipeline.report"),
    "sources": ("pipeline.stages", "pipeline.report", "pipeline.engines"),
    "inference": ("pipeline.stages", "pipeline.report", "pipeline.sweep", "pipeline.publish"),
    "publish": ("pipeline.stages", "pipeline.sweep"),
}
"""What the modules of a room of the package must not import, with all that is in it."""
MOST_LINES = 450


def imports(path: Path) -> set[str]:
    """Dotted names that a module imports anywhere; of ``from package import name`` the name in the package."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_no_import_goes_against_the_layers():
    assert {path.name for path in PIPELINE.iterdir()} >= FORBIDDEN.keys()
    found = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in MODULES
        for name in sorted(imports(path))
        for banned in ("scripts", *FORBIDDEN.get(path.relative_to(PIPELINE).parts[0], ()))
        if name == banned or name.startswith(f"{banned}.")
    ]
    assert not found, "\n".join(found)


def test_no_imports_run_in_circles():
    """Neither from module to module, for type checking included, nor from folder to folder."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in MODULES}
    # A folder with others in it is no place to import from as a whole: its own modules count one by one. So do those of
    # an axis, which has all of its own from computation to tables.
    leaves = {path.parent for path in MODULES if path.relative_to(PIPELINE).parts[0] != "axes"}
    leaves -= {path.parent.parent for path in MODULES}
    modules, folders = networkx.DiGraph(), networkx.DiGraph()
    for name, path in names.items():
        # ``from package import module`` names a module, ``from module import definition`` something in one.
        found = {place for known in imports(path) for place in (known, known.rpartition(".")[0]) if place in names}
        modules.add_edges_from((name, other) for other in found - {name})
        own, *others = (file.parent if file.parent in leaves else file for file in (path, *map(names.get, found)))
        folders.add_edges_from((own, other) for other in others if other != own)
    assert modules.number_of_edges() > 1000 and folders.number_of_edges() > 100
    for graph in (modules, folders):
        assert not [
            sorted(map(str, circle)) for circle in networkx.strongly_connected_components(graph) if len(circle) > 1
        ]


def test_modules_are_short_and_say_what_they_are():
    lengths = {path: len(path.read_text().splitlines()) for path in MODULES}
    assert not {path: length for path, length in lengths.items() if length > MOST_LINES}
    assert not [path for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))]


STAGE_MODULES = sorted({stage.module_name for stage in STAGES.values()})


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        (STAGE_MODULES, {"torch", "transformers", "wandb"}),
        (
            ["pipeline.stages.check_params", "pipeline.sweep.application"],
            {"pandas", "pyarrow", "scipy", "torch", "dvc"},
        ),
    ],
    ids=["stages", "composing and sweeping"],
)
def test_what_starts_often_does_not_wait_for_heavy_libraries(modules, heavy):
    code = f"import sys, {', '.join(modules)}; print(*{heavy} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (found.returncode, found.stdout.strip()) == (0, ""), found.stdout + found.stderr
