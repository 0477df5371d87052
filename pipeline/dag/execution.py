"""Running one stage: its parameters, paths, record, tracking and unfinished work, all from its declaration."""

import contextlib
import importlib
import inspect
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.artifacts.locks import exclusive
from pipeline.artifacts.storage import LABEL, read_json, require, table_metadata, write_table
from pipeline.artifacts.unavailable import write_unavailable
from pipeline.command import run_command
from pipeline.commands import module_source
from pipeline.config.params import Params, load_params
from pipeline.config.seeds import SEEDS
from pipeline.config.view import ParamsView, look_up
from pipeline.dag.code_digest import project_code
from pipeline.dag.declaration import Paths, Row, Stage, fill
from pipeline.dag.launch import DIRECTORY, launch, run_launched
from pipeline.dag.options import lists_of, parse_options
from pipeline.dag.tables import parts_of, rows_of, template_names, why_off
from pipeline.engines.loading.conditioned_model import keep_last_model
from pipeline.errors import ConfigError, ModelError, UnavailableError
from pipeline.record.provenance import RECORD, StageRecord, Usage, run_identity, sha256_path
from pipeline.record.tracking import Run, stage_run

if TYPE_CHECKING:
    import pandas as pd


class Shard(NamedTuple):
    """One of several processes that share the work of a stage."""

    rank: int
    count: int

    def share(self, items: Mapping[str, Any]) -> dict[str, Any]:
        """What this process does of items: the same for the same items, neighbours together."""
        return {key: items[key] for place, key in enumerate(items) if place * self.count // len(items) == self.rank}


class ShareDone(Exception):
    """A process has computed its share of a part, which another will write."""


class StageRun:
    """One run of a stage, of a row of its table, as ``main`` sees it; ``replaced`` are other paths by name."""

    def __init__(
        self,
        stage: Stage,
        row: Row,
        params: Params,
        replaced: Mapping[str, Any] | None = None,
        shard: Shard | None = None,
    ):
        self.stage, self.row, self._params, self.shard = stage, row, params, shard
        # Counts from here on: some stages make the record only when their work is done.
        self._usage = Usage()
        self.names = {**stage.constants, **{name: row[name] for name in stage.chosen_by}}
        self._places = template_names(row, params)
        declared = {**stage.reads, **stage.writes}
        self.paths: dict[str, Any] = {name: self._path(paths) for name, paths in declared.items()}
        self.paths |= replaced or {}
        self._tracked = [fill(key, self._places) for key in stage.parameters]
        free = [fill(key, self._places) for key in stage.free_parameters]
        self.params = ParamsView(params, (*self._tracked, *free), f"the stage {self.title}")
        sources = [fill(template, self._places) for template in stage.sources]
        self.inputs = [*map(Path, sources), *self._listed(stage.reads)]

    def filled(self, template: str) -> Path:
        """A path of this run."""
        return Path(fill(template, self._places))

    def _path(self, templates: Paths) -> Path | list[Path]:
        return self.filled(templates) if isinstance(templates, str) else [self.filled(path) for path in templates]

    def _listed(self, names: Collection[str]) -> list[Path]:
        paths = (self.paths[name] for name in names)
        return [path for found in paths for path in (found if isinstance(found, list) else [found])]

    @property
    def title(self) -> str:
        """E.g. "generate-mcq embedded soft"."""
        return " ".join([self.stage.name, *(self.row[name] for name in self.stage.chosen_by)])

    @property
    def _key(self) -> str:
        return "-".join(self.row[name] for name in self.stage.chosen_by)

    @property
    def address(self) -> str:
        """Its name in DVC."""
        return "@".join(filter(None, [self.stage.name, self._key]))

    @cached_property
    def record(self) -> StageRecord:
        """What the run depends on. Raises ArtifactError for a missing input."""
        values = asdict(self._params)
        parameters = {key: look_up(values, key) for key in self._tracked}
        code = project_code().digest(self.stage.module_name)
        seed = next((parameters[key] for key in SEEDS if key in parameters), self._params.seed)
        inputs, command = [require(path) for path in dict.fromkeys(self.inputs)], self.stage.command(self._places)
        return StageRecord(self.stage.name, {**self.names, **parameters}, inputs, code, seed, command, self._usage)

    @cached_property
    def identity(self) -> str:
        """What the outputs of a part are known by: equal is done already."""
        record = self.record
        return run_identity(record.stage, record.code, record.parameters, {}, record.inputs)

    @property
    def outputs(self) -> list[Path]:
        """Files and directories that it writes, without its record."""
        return self._listed(self.stage.writes)

    @property
    def record_path(self) -> Path:
        return self.filled(self.stage.records)

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
        """Write a Parquet table that is known by this run's identity. Raises ShareDone in one of several processes,
        which would all write the same file."""
        if self.shard is not None:
            raise ShareDone
        write_table(path, table, label=self.identity)

    def write_record(self, made: Path | None = None, part: str = "", **results: Any) -> None:
        """Write the record to its declared place; or into ``made``, the output's directory to be, or its ``part``."""
        written = [self.paths[name] for name in self.stage.writes]
        if made is not None:
            self.record.write(made / part / RECORD, {str(written[0] / part): sha256_path(made / part)}, **results)
            return
        declared = self._path(next(iter(self.stage.writes.values())))
        place = self.record_path if written[0] == declared else written[0].with_suffix(f".{RECORD}")
        self.record.write(place, {str(path): sha256_path(path) for path in written}, **results)

    def tracked(self) -> contextlib.AbstractContextManager[Run]:
        """The run's W&B run."""
        names = {name: self.row.get(name, "") for name in ("model", "condition")}
        return stage_run(self._params, self.record, **names)

    @property
    def unfinished(self) -> Path:
        directory = Path(self._params.artifacts) / "unfinished" / self.stage.name / self._key
        return directory / self.record.identity[:16]

    @contextlib.contextmanager
    def scratch(self, suffix: str = "") -> Iterator[Path]:
        """A directory for unfinished work, which a later run of the same identity goes on with; gone on success.

        Work of another identity stays beside it, and a message says how to go on with it. ``suffix`` tells apart work
        of one identity that cannot continue other work of it. Raises BusyError where another process does the same.
        """
        own = self.unfinished.with_name(f"{self.unfinished.name}{suffix}")
        place = own.parent.with_name(f"{own.parent.name}-{self.shard.rank}") if self.shard else own.parent
        with exclusive(place, self.title):
            if not own.exists() and (others := sorted(own.parent.glob("*"))):
                print(
                    f"{others[-1]} is unfinished work of other code, parameters or inputs: starting anew in {own}. "
                    "Where the difference does not matter, rename it to that before the stage is started"
                )
            self._usage.continued |= own.exists()
            yield own
            shutil.rmtree(own, ignore_errors=True)
            with contextlib.suppress(OSError):
                own.parent.rmdir()


def find_run(
    stages: Sequence[Stage], params: Params, names: Mapping[str, str], replaced: Mapping[str, Any] | None = None
) -> StageRun:
    """The run that a command line names. Raises ConfigError, which says what there is."""
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


def execute(run: StageRun) -> None:
    """Call the stage's ``main`` with what its signature names; where it is off, leave artifacts that say so."""
    if reason := why_off(run.stage, run._params):
        reason = f"{run.title}: {reason}"
        print(reason)
        for path in [*run.outputs, *([run.record_path] if run.stage.records else [])]:
            if not path.exists():
                write_unavailable(path, reason)
        return
    main = importlib.import_module(run.stage.module_name).main
    offered = {"run": run, **run.names, **run.paths}
    for name in lists_of(module_source(run.stage.module_name)) & run.paths.keys():
        offered[name] = run.paths[name] if isinstance(run.paths[name], list) else [run.paths[name]]
    main(**{name: offered[name] for name in inspect.signature(main).parameters if name in offered})


def _compute_share(run: StageRun, shard: Shard) -> None:
    """Compute a process's share of each part that can begin, into its unfinished work; whoever runs the stage by itself
    afterwards finds all of it, and says what failed."""
    to_make: set[Path] = set()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[shard.rank] if visible else str(shard.rank)
    with keep_last_model():
        for part in (StageRun(*each, run._params, shard=shard) for each in parts_of(run.stage, run.row, run._params)):
            waits = to_make & set(part.inputs)
            if not waits and part.is_done():
                continue
            to_make.update(part.outputs)
            if not waits:
                with contextlib.suppress(ShareDone, ModelError, UnavailableError):
                    execute(part)


def run_parts(run: StageRun) -> None:
    """Do the parts of a stage that are not done; what the model cannot do, or is off, leaves artifacts that say so."""
    if DIRECTORY in os.environ:
        return _compute_share(run, Shard(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])))
    parts = parts_of(run.stage, run.row, run._params)
    with keep_last_model():
        for part in (StageRun(part, row, run._params) for part, row in parts):
            if part.is_done():
                print(f"{part.title}: unchanged, kept", file=sys.stderr)
                continue
            try:
                execute(part)
            except (ModelError, UnavailableError) as error:
                if run.stage.device == "none":
                    raise
                for path in (*part.outputs, part.record_path):
                    write_unavailable(path, f"{part.title}: {error}")
                print(
                    f"FAILED: {part.title}: {error}. Tables show its cells as failed. To try again: "
                    f"dvc repro --force --single-item {run.address}",
                    file=sys.stderr,
                )
    on = {part.name for part, _ in parts}
    for part in run.stage.parts:
        for template in part.outputs if part.name not in on else ():
            # A row of models names no file of a condition, but the directory of all.
            template = template if "condition" in run.row else template.partition("/{condition}")[0]
            if not (path := run.filled(template)).exists():
                write_unavailable(path, f"{part.name}: no axis asks for it (axes in params.yaml)")


def command_line() -> None:
    """Run the module that was started as ``python -m MODULE``; options name a run, and paths to replace its own."""
    module = sys.modules["__main__"].__spec__.name
    options = parse_options(module, sys.argv[1:])

    def start() -> None:
        run = find_run(options.stages, load_params(options.params), options.chosen, options.paths)
        processes = run._params.distributed.processes(run.stage.device)
        # Processes that somebody else started (torchrun, srun) run the stage as they are.
        several = processes > 1 and "WORLD_SIZE" not in os.environ
        if several:
            launch(module, sys.argv[1:], processes)
        if not several or run.stage.device == "shards":
            execute(run)

    if DIRECTORY in os.environ:
        run_launched(start)
    else:
        run_command(start)
