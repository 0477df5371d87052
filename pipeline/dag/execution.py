"""Running one stage: its parameters, paths, record, tracking and unfinished work, all from its declaration."""

import argparse
import contextlib
import importlib
import inspect
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.artifacts.locks import exclusive
from pipeline.artifacts.storage import LABEL, read_json, require, table_metadata, write_table
from pipeline.artifacts.unavailable import write_unavailable
from pipeline.command import run_command
from pipeline.config.params import Params, load_params
from pipeline.config.seeds import SEEDS
from pipeline.config.view import ParamsView, look_up
from pipeline.dag.code_digest import engines_besides, project_code
from pipeline.dag.declaration import Paths, Row, Stage, fill, flat
from pipeline.dag.launch import DIRECTORY, launch, run_launched
from pipeline.dag.stage_kinds import common_path
from pipeline.dag.stages import DECLARED
from pipeline.dag.tables import is_off, parts_of, rows_of, template_names
from pipeline.errors import ConfigError
from pipeline.record.provenance import RECORD, StageRecord, Usage, run_identity, sha256_path
from pipeline.record.tracking import Run, stage_run

if TYPE_CHECKING:
    import pandas as pd


class StageRun:
    """One run of a stage, as its ``main`` sees it: ``row`` says which repetition, ``replaced`` are paths by name that
    are not those of the declaration.
    """

    def __init__(
        self, stage: Stage, row: Row, params: Params, replaced: Mapping[str, Path | Sequence[Path]] | None = None
    ):
        self.stage, self.row, self._params = stage, row, params
        # From here on, not from the record: some stages need that only when their work is done.
        self._usage = Usage()
        self.names = {**stage.constants, **{name: row[name] for name in stage.chosen_by}}
        self._places = template_names(row, params)
        declared = {**stage.reads, **stage.writes}
        self.paths: dict[str, Any] = {name: self._path(paths) for name, paths in declared.items()} | dict(
            replaced or {}
        )
        self._tracked = [fill(key, self._places) for key in stage.parameters]
        free = [fill(key, self._places) for key in stage.free_parameters]
        self.params = ParamsView(params, (*self._tracked, *free), f"the stage {self.title}")
        self._sources = [fill(template, self._places) for template in stage.sources]
        self.inputs = [*map(Path, self._sources), *self._listed(stage.reads)]

    def _path(self, templates: Paths) -> Path | list[Path]:
        if isinstance(templates, str):
            return Path(fill(templates, self._places))
        return [Path(fill(template, self._places)) for template in templates]

    def _listed(self, names: Collection[str]) -> list[Path]:
        paths = (self.paths[name] for name in names)
        return [path for found in paths for path in (found if isinstance(found, list) else [found])]

    @property
    def title(self) -> str:
        """The stage and what tells this run from the others, e.g. "generate-mcq embedded soft"."""
        return " ".join([self.stage.name, *(self.row[name] for name in self.stage.chosen_by)])

    @property
    def _key(self) -> str:
        return "-".join(self.row[name] for name in self.stage.chosen_by)

    @property
    def address(self) -> str:
        """Its name in DVC, where its row is known there by what names it."""
        return "@".join(filter(None, [self.stage.name, self._key]))

    @cached_property
    def record(self) -> StageRecord:
        """What the run depends on: made before the work, written after it. Raises ArtifactError for a missing input."""
        values = asdict(self._params)
        parameters = {key: look_up(values, key) for key in self._tracked}
        code = project_code().digest(self.stage.module_name, engines_besides(self._params.engine.kind))
        seed = next((parameters[key] for key in SEEDS if key in parameters), self._params.seed)
        inputs, command = [require(path) for path in dict.fromkeys(self.inputs)], self.stage.command(self._places)
        return StageRecord(self.stage.name, {**self.names, **parameters}, inputs, code, seed, command, self._usage)

    @cached_property
    def identity(self) -> str:
        """What the outputs of a part are known by, without what is only found in the work: equal is done already."""
        record = self.record
        return run_identity(record.stage, record.code, record.parameters, {}, record.inputs)

    @property
    def outputs(self) -> list[Path]:
        """Files and directories that it writes, its record left out."""
        return self._listed(self.stage.writes)

    @property
    def record_path(self) -> Path:
        """Where the record goes, unless that is into an output."""
        return Path(fill(self.stage.records, self._places))

    def why_off(self) -> str:
        """Why there is nothing to do for a stage of an axis that is off, and what to do; empty for any other."""
        if not is_off(self.stage, self._params):
            return ""
        axis, axes = self.stage.axis, ",".join([*self._params.axes, self.stage.axis])
        return f'{self.title}: the axis {axis} is off; `make params OVERRIDES="axes=[{axes}]"` switches it on'

    def is_done(self) -> bool:
        """Whether all outputs of a part are there and of this identity."""
        return self.stage.keeps and self.record_path.exists() and all(map(self._is_own, self.outputs))

    def _is_own(self, output: Path) -> bool:
        if output.suffix == ".parquet":
            return table_metadata(output, LABEL) == self.identity
        made = read_json(self.record_path)
        if "stage" not in made or not output.is_dir():
            return False
        return run_identity(made["stage"], made["code"], made["parameters"], {}, made["inputs_sha256"]) == self.identity

    def write_table(self, path: Path, table: "pd.DataFrame") -> None:
        """Write a Parquet table that is known by this run's identity."""
        write_table(path, table, label=self.identity)

    @cached_property
    def _parts_on(self) -> tuple[tuple[Stage, Row], ...]:
        return parts_of(self.stage, self.row, self._params)

    def parts(self) -> Iterator["StageRun"]:
        """The runs of a stage's parts whose axes are on, in order; each counts what it uses from when it is taken."""
        return (StageRun(part, row, self._params) for part, row in self._parts_on)

    def outputs_of_parts_that_are_off(self) -> Iterator[tuple[str, Path]]:
        """Outputs and records of the parts whose axes are off, each with the part's name."""
        on = {part.name for part, _ in self._parts_on}
        for part in self.stage.parts:
            for path in part.outputs if part.name not in on else ():
                yield part.name, Path(fill(common_path(path, self.stage.chosen_by), self._places))

    def write_record(self, made: Path | None = None, part: str = "", **results: Any) -> None:
        """Write the record to its declared place, with ``results`` that are worth knowing about the work.

        ``made`` is the directory that will take the place of the output, where the record goes into it, and ``part`` a
        directory in it that has a record of its own.
        """
        written = [self.paths[name] for name in self.stage.writes]
        if made is not None:
            self.record.write(made / part / RECORD, {str(written[0] / part): sha256_path(made / part)}, **results)
            return
        declared = self._path(next(iter(self.stage.writes.values())))
        place = self.record_path if written[0] == declared else written[0].with_suffix(f".{RECORD}")
        self.record.write(place, {str(path): sha256_path(path) for path in written}, **results)

    def tracked(self) -> contextlib.AbstractContextManager[Run]:
        """The run's W&B run, while the context is open."""
        names = {name: self.row.get(name, "") for name in ("model", "condition")}
        return stage_run(self._params, self.record, **names)

    @property
    def unfinished(self) -> Path:
        """Directory for unfinished work of this identity."""
        return self._unfinished(self.record.identity)

    def _unfinished(self, identity: str, suffix: str = "") -> Path:
        return Path(self._params.artifacts) / "unfinished" / self.stage.name / self._key / f"{identity[:16]}{suffix}"

    @contextlib.contextmanager
    def scratch(self, suffix: str = "", regardless_of: Collection[str] = ()) -> Iterator[Path]:
        """A directory for unfinished work, which a later run of the same identity goes on with; gone on success.

        Work of another identity (older code, other parameters, other inputs) stays beside it, and a message says how
        to go on with it. ``suffix`` tells apart work of one identity that cannot be continued by other work of it.
        ``regardless_of`` are parameters that the work does not depend on, and with them the files and facts that they
        name. Raises BusyError where another process does the same.
        """
        own = self._unfinished(self.record.identity_without(regardless_of, self._sources), suffix)
        with exclusive(own.parent, self.title):
            # Work with another suffix could not be gone on with, whatever its identity.
            others = [path for path in sorted(own.parent.glob("*")) if path != own and path.name[16:] == own.name[16:]]
            if others and not own.exists():
                print(
                    f"unfinished work in {', '.join(map(str, others))} is of older code, parameters or inputs and is "
                    "set aside; this run starts anew. If the difference does not matter: stop it, "
                    f"`rm -rf {own} && mv {others[-1]} {own}` and run again",
                    file=sys.stderr,
                )
            self._usage.continued |= own.exists()
            yield own
            shutil.rmtree(own, ignore_errors=True)
            with contextlib.suppress(OSError):
                own.parent.rmdir()


def find_run(
    stages: Sequence[Stage], params: Params, names: Mapping[str, str], replaced: Mapping[str, Any] | None = None
) -> StageRun:
    """The run that a command line names by values of constants and of the row. Raises ConfigError that says what there
    is.
    """
    known = []
    for stage in stages:
        for row in rows_of(stage.over, params).values():
            found = {**stage.constants, **{name: row[name] for name in stage.chosen_by}}
            if found == names:
                return StageRun(stage, row, params, replaced)
            known.append(" ".join(f"--{name} {value}" for name, value in found.items()))
    asked = " ".join(f"--{name} {value}" for name, value in names.items())
    there = f"there are {'; '.join(known)}" if known else "it is left out under these parameters"
    raise ConfigError(f"{stages[0].module_name} has no run {asked}: {there}")


def named_run(name: str, params: Params, **replaced: Path | list[Path]) -> StageRun:
    """The run of a stage or part by its name, e.g. "train-soft@embedded". Raises KeyError where there is none."""
    name, _, key = name.partition("@")
    stage = DECLARED[name]
    return StageRun(stage, rows_of(stage.over, params)[key], params, replaced)


def execute(run: StageRun) -> None:
    """Do the work of a run in this process: call the stage's ``main`` with what its signature names.

    A stage of an axis that is off leaves artifacts that say so.
    """
    if reason := run.why_off():
        print(reason)
        for path in [*run.outputs, *([run.record_path] if run.stage.records else [])]:
            if not path.exists():
                write_unavailable(path, reason)
        return
    main = importlib.import_module(run.stage.module_name).main
    offered = {"run": run, **run.names, **run.paths}
    for name in lists_of(main) & run.paths.keys():
        offered[name] = run.paths[name] if isinstance(run.paths[name], list) else [run.paths[name]]
    main(**{name: offered[name] for name in inspect.signature(main).parameters if name in offered})


def lists_of(main: Callable[..., None]) -> set[str]:
    """Names of the parameters of a stage's ``main`` that are lists of paths."""
    parameters = inspect.signature(main).parameters.items()
    return {name for name, parameter in parameters if parameter.annotation == list[Path]}


def _parser(module: str, description: str, stages: Sequence[Stage], lists: set[str]) -> argparse.ArgumentParser:
    """The command line of a module's stages: what names a run, then paths to replace those of the declaration."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        epilog="\n".join(
            f"{s.name}: {s.description}. Parameters: {', '.join(s.parameters) or 'none'}." for s in stages
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--params", type=Path, default=Path("params.yaml"), help="composed parameters (default: %(default)s)"
    )
    for name in _run_names(stages):
        values = dict.fromkeys(stage.constants[name] for stage in stages if name in stage.constants)
        complete = all(name in stage.constants for stage in stages)
        parser.add_argument(f"--{name}", choices=list(values) if complete else None, help=f"the {name}")
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
    return parser


def _run_names(stages: Sequence[Stage]) -> list[str]:
    """What tells the runs of a module's stages apart."""
    return list(dict.fromkeys(name for stage in stages for name in (*stage.constants, *stage.chosen_by)))


def command_line(arguments: Sequence[str] | None = None) -> None:
    """Run the stage module that was started as ``python -m MODULE``."""
    caller = sys.modules["__main__"]
    module = caller.__spec__.name
    stages = [stage for stage in DECLARED.values() if stage.module_name == module]
    parser = _parser(module, caller.__doc__ or "", stages, lists_of(caller.main))
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    params = given.pop("params")
    chosen = {name: given.pop(name) for name in _run_names(stages) if name in given}

    def start() -> None:
        run = find_run(stages, load_params(params), chosen, given)
        processes = run._params.distributed.num_processes if run.stage.device == "training" else 1
        if processes == 1 or "WORLD_SIZE" in os.environ:
            execute(run)
        else:
            launch(module, sys.argv[1:], processes)

    if DIRECTORY in os.environ:
        run_launched(start)
    else:
        run_command(start)
