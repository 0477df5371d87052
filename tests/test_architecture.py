"""Imports go one way: stages -> engines -> core; core knows no files, configuration or transformers."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

MODULES = sorted((ROOT / "pipeline").rglob("*.py"))
FORBIDDEN = {
    "core": (
        "transformers",
        "peft",
        "omegaconf",
        "hydra",
        "wandb",
        "dvc",
        "pipeline.config.params",
        "pipeline.artifacts.storage",
        "pipeline.engines",
        "pipeline.stages",
        "pipeline.report",
        "pathlib",
        "os",
    ),
    "engines": ("pipeline.stages", "pipeline.report", "pipeline.record.provenance", "pipeline.record.tracking"),
    "report": ("pipeline.stages", "pipeline.engines", "transformers", "torch"),
    "stand_ins": ("pipeline.stages", "pipeline.report"),
    "embedded": ("pipeline.stages", "pipeline.report"),
}


def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_layers(path):
    layer = path.relative_to(ROOT / "pipeline").parts[0]
    for name in imports(path):
        for banned in FORBIDDEN.get(layer, ()):
            assert name != banned and not name.startswith(banned + "."), f"{path} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_size_and_docstrings(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    tree = ast.parse(text)
    assert ast.get_docstring(tree), f"{path} has no docstring"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{path}: {node.name} has no docstring"


STAGES = sorted(
    path.stem for path in (ROOT / "pipeline" / "stages").glob("*.py") if 'if __name__ == "__main__"' in path.read_text()
)


def test_every_stage_says_how_to_run_it():
    assert len(STAGES) == 27
    for stage in ("build_prompts", "generate", "report"):
        result = subprocess.run(
            [sys.executable, "-m", f"pipeline.stages.{stage}", "--help"], capture_output=True, text=True, cwd=ROOT
        )
        assert result.returncode == 0
        assert "--params" in result.stdout and "--output" in result.stdout


def test_stage_modules_do_not_import_torch_before_they_need_it():
    code = (
        "import importlib, sys\n"
        "for stage in sys.argv[1:]:\n"
        "    importlib.import_module(f'pipeline.stages.{stage}')\n"
        "    if heavy := {'torch', 'transformers', 'wandb'} & set(sys.modules): sys.exit(f'{stage} imports {heavy}')"
    )
    found = subprocess.run([sys.executable, "-c", code, *STAGES], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
