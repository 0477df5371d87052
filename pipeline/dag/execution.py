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
from pipeline.artifacts.storage import read_json, require, table_label, write_table
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
from pipeline.record.provenance import RECORD, StageRecord, run_identity, sha256_path
from pipeline.record.tracking import Run, stage_run
from pipeline.record.usage import Usage

if TYPE_CHECKING:
    import pandas as pd


class StageRun:
    """One run of a stage, as its ``main`` sees it.

    Args:
        stage: The declaration.
        row: Which repetition; empty for a stage that runs once.
        params: All parameters.
        replaced: Paths by name that are not those of the declaration.
    """

    def __init__(
        self, stage: Stage, row: Row, params: Params, replaced: Mapping[str, Path | Sequence[Path]] | None = None
    ):
        self.stage, self.row, self._params = stage, row, params
        # From here on, not from the record: some stages need that only when their work is done.
        self._usage = Usage()
        self.names = {**stage.constants, **{name: row[name] for name in stage.chosen_by}}
        self._places = template_names(row, params)
        declared = {**stage.reads, **stage.writes, **stage.shares}
        self.paths: dict[str, Any] = {name: self._path(paths) for name, paths in declared.items()} | dict(
            replaced or {}
        )
        tracked = [self._fill(key) for key in stage.parameters]
        free = [self._fill(key) for key in stage.free_parameters]
        self.params = ParamsView(params, (*tracked, *free), f"the stage {self.title}")
        self._tracked = tracked
        self._sources = [str(self._path(template)) for template in stage.sources]
        self.inputs = [
            Path(path)
            for paths in (self._sources, *(self.paths[name] for name in stage.reads))
            for path in (paths if isinstance(paths, list) else [paths])
        ]

    def _fill(self, template: str) -> str:
        return fill(template, self._places)

    def _path(self, templates: Paths) -> Path | list[Path]:
        if isinstance(templates, str):
            return Path(self._fill(templates))
        return [Path(self._fill(template)) for template in templates]

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
        inputs = [require(path) for path in dict.fromkeys(self.inputs)]
        code = self.code_of(self.stage.module_name)
        command = self.stage.command(self._fill)
        named = {**self.names, **parameters}
        seed = next((parameters[key] for key in SEEDS if key in parameters), self._params.seed)
        return StageRecord(self.stage.name, named, inputs, code, seed, command, self._usage)

    def code_of(self, module: str) -> str:
        """Digest of the code that a module reaches, with the engine of these parameters."""
        return project_code().digest(module, engines_besides(self._params.engine.kind))

    @cached_property
    def identity(self) -> str:
        """What the outputs of a part are known by, without what is only found in the work: equal is done already."""
        record = self.record
        return run_identity(record.stage, record.code, record.parameters, {}, record.inputs)

    @property
    def outputs(self) -> list[Path]:
        """Files and directories that it writes, its record left out."""
        written = (self.paths[name] for name in self.stage.writes)
        return [path for paths in written for path in (paths if isinstance(paths, list) else [paths])]

    def why_off(self) -> str:
        """Why there is nothing to do for a stage of an axis that is off, and what to do; empty for any other."""
        if not is_off(self.stage, self._params):
            return ""
        axis = self.stage.axis
        axes = ",".join([*self._params.axes, axis])
        return f'{self.title}: the axis {axis} is off; `make params OVERRIDES="axes=[{axes}]"` switches it on'

    @property
    def record_path(self) -> Path:
        """Where the record goes, unless that is into an output."""
        return Path(self._fill(self.stage.records))

    def is_done(self) -> bool:
        """Whether all outputs of a part are there and of this identity."""
        return self.stage.keeps and self.record_path.exists() and all(map(self._is_own, self.outputs))

    def _is_own(self, output: Path) -> bool:
        if output.suffix == ".parquet":
            return table_label(output) == self.identity
        made = read_json(self.record_path)
        keys = ("stage", "code", "parameters")
        known = run_identity(*(made[key] for key in keys), {}, made["inputs_sha256"]) if "stage" in made else ""
        return output.is_dir() and known == self.identity

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
            if part.name not in on:
                for path in part.outputs:
                    yield part.name, Path(self._fill(common_path(path, self.stage.chosen_by)))

    def write_record(self, made: Path | None = None, part: str = "", **results: Any) -> None:
        """Write the record to its declared place.

        Args:
            made: The directory that will take the place of the output, where the record goes into it.
            part: A directory in it that has a record of its own.
            results: What is worth knowing about the work.
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
        return stage_run(
            self._params, self.record, model=self.row.get("model", ""), condition=self.row.get("condition", "")
        )

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
        to go on with it.

        Args:
            suffix: Tells apart work of one identity that cannot be continued by other work of it.
            regardless_of: Parameters that the work in the directory does not depend on, and with them the files and
                facts that they name.

        Raises:
            BusyError: Another process does the same.
        """
        own = self._unfinished(self.record.identity_without(regardless_of, self._sources), suffix)
        with exclusive(own.parent, self.title):
            _say_what_is_set_aside(own)
            self._usage.continued |= own.exists()
            yield own
            shutil.rmtree(own, ignore_errors=True)
            with contextlib.suppress(OSError):
                own.parent.rmdir()


def _say_what_is_set_aside(own: Path) -> None:
    # Work with another suffix could not be gone on with, whatever its identity.
    others = [path for path in sorted(own.parent.glob("*")) if path != own and path.name[16:] == own.name[16:]]
    if others and not own.exists():
        print(
            f"unfinished work in {', '.join(map(str, others))} is of older code, parameters or inputs and is "
            "set aside; this run starts anew. If the difference does not matter: stop it, "
            f"`rm -rf {own} && mv {others[-1]} {own}` and run again",
            file=sys.stderr,
        )


def find_run(
    stages: Sequence[Stage], params: Params, names: Mapping[str, str], replaced: Mapping[str, Any] | None = None
) -> StageRun:
    """The run that a command line names: ``names`` are the values of constants and of the row.

    Raises:
        ConfigError: There is none; says what there is.
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
    """The run of a stage or part by its name, e.g. "train-soft@embedded", with other paths for some of its own.

    Raises:
        KeyError: There is no such run.
    """
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
    return {
        name for name, parameter in inspect.signature(main).parameters.items() if parameter.annotation == list[Path]
    }


def _parser(module: str, description: str, stages: Sequence[Stage], lists: set[str]) -> argparse.ArgumentParser:
    """The command line of a module's stages: what names a run, then paths to replace those of the declaration."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        epilog="\n".join(_epilog(stage) for stage in stages),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--params", type=Path, default=Path("params.yaml"), help="composed parameters (default: %(default)s)"
    )
    for name in dict.fromkeys(name for stage in stages for name in (*stage.constants, *stage.chosen_by)):
        values = [stage.constants[name] for stage in stages if name in stage.constants]
        choices = list(dict.fromkeys(values)) if len(values) == len(stages) else None
        parser.add_argument(f"--{name}", choices=choices, help=f"the {name}")
    seen: set[str] = set()
    for stage in stages:
        for name, paths in {**stage.reads, **stage.writes, **stage.shares}.items():
            if name not in seen and not stage.parts:
                several = "+" if not isinstance(paths, str) or name in lists else None
                default = " ".join(flat({name: paths})).replace("%", "%%")
                kind = "read" if name in stage.reads else "written"
                parser.add_argument(
                    f"--{name.replace('_', '-')}", type=Path, nargs=several, help=f"{kind} (default: {default})"
                )
                seen.add(name)
    return parser


def _epilog(stage: Stage) -> str:
    keys = ", ".join(stage.parameters) or "none"
    return f"{stage.name}: {stage.description}. Parameters: {keys}."


def command_line(arguments: Sequence[str] | None = None) -> None:
    """Run the stage module that was started as ``python -m MODULE``."""
    caller = sys.modules["__main__"]
    module = caller.__spec__.name
    stages = [stage for stage in DECLARED.values() if stage.module_name == module]
    parser = _parser(module, caller.__doc__ or "", stages, lists_of(caller.main))
    given = vars(parser.parse_args(arguments))
    params, chosen = given.pop("params"), {}
    for name in dict.fromkeys(name for stage in stages for name in (*stage.constants, *stage.chosen_by)):
        if (value := given.pop(name)) is not None:
            chosen[name] = value
    replaced = {name: value for name, value in given.items() if value is not None}

    def start() -> None:
        run = find_run(stages, load_params(params), chosen, replaced)
        processes = run._params.distributed.num_processes if run.stage.device == "training" else 1
        if processes == 1 or "WORLD_SIZE" in os.environ:
            execute(run)
        else:
            launch([sys.executable, "-m", module, *sys.argv[1:]], processes)

    if DIRECTORY in os.environ:
        run_launched(start)
    else:
        run_command(start)
