"""Options of a stage's command, from dvc.yaml and its source: help need not wait for the libraries of the stage."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.command import CommandParser
from pipeline.commands import add_params, module_source
from pipeline.dag.declaration import Paths, Stage, flat
from pipeline.dag.stages import DECLARED


@dataclass(frozen=True)
class StageOptions:
    """What a command line asks for: ``chosen`` names a run, ``paths`` replace its own."""

    stages: list[Stage]
    params: Path
    chosen: dict[str, str]
    paths: dict[str, Any]


def lists_of(source: ast.Module) -> set[str]:
    """The arguments of a module's ``main`` that are lists of paths."""
    mains = (each for each in source.body if isinstance(each, ast.FunctionDef) and each.name == "main")
    arguments = [each for main in mains for each in main.args.args if each.annotation is not None]
    return {each.arg for each in arguments if ast.unparse(each.annotation) == "list[Path]"}


def parse_options(module: str, arguments: list[str]) -> StageOptions:
    """Options of a module that stages run; ``--help`` prints them and ends the process."""
    stages = [stage for stage in DECLARED.values() if stage.module_name == module]
    source = module_source(module)
    lists = lists_of(source)
    says = [f"{s.name}: {s.description}. Parameters: {', '.join(s.parameters) or 'none'}." for s in stages]
    parser = CommandParser(prog=f"python -m {module}", description=ast.get_docstring(source), epilog="\n".join(says))
    add_params(parser)
    names = list(dict.fromkeys(name for stage in stages for name in (*stage.constants, *stage.chosen_by)))
    for name in names:
        parser.add_argument(f"--{name}", help=f"the {name}")
    options: dict[str, tuple[Paths, str]] = {}
    for stage in stages:
        for kind, declared in (("read", stage.reads), ("written", stage.writes)):
            for name, paths in () if stage.parts else declared.items():
                options.setdefault(name, (paths, kind))
    for name, (paths, kind) in options.items():
        default = " ".join(flat({name: paths})).replace("%", "%%")
        several = "+" if not isinstance(paths, str) or name in lists else None
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=Path, nargs=several, help=f"{kind} (default: {default})")
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    params = given.pop("params")
    return StageOptions(stages, params, {name: given.pop(name) for name in names if name in given}, given)
