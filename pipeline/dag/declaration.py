"""What a stage is, and a part of one."""

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pipeline.estimates.cost import Cost
    from pipeline.estimates.prices import Prices

Paths = str | tuple[str, ...]
Row = dict[str, str]
"""One repetition of a stage: what stands for ``{model}``, ``{condition}`` and the like in its declaration."""


@dataclass(frozen=True)
class Stage:
    """A stage of dvc.yaml or a part of one, run once for every row of a table.

    Paths are templates: ``{model}``, ``{condition}`` and the like are the row's, ``{artifacts}`` and ``{reports}`` the
    roots in params.yaml, and ``{dag.NAME}`` a file that depends on the parameters (``pipeline.dag.tables``).

    Attributes:
        name: Its name.
        description: One line.
        module: Module whose ``main`` does the work: in ``pipeline.stages``, or with dots in ``pipeline``. It is called
            with the run, and by name with those of the row, the paths and ``constants`` that it has parameters for.
        over: Table that it is repeated over, e.g. "conditions.open"; empty for a stage that runs once.
        chosen_by: Names of the row's entries that a command line names a run by, e.g. ("model", "condition").
        constants: What is the same for all of its rows but not for all stages of the module, e.g. ``{"axis": "mcq"}``.
        reads: Paths of artifacts and files by the name of ``main``'s parameter; several for a parameter with a list.
        sources: Files and directories that ``main`` finds by its parameters: data and checkpoints.
        after: Artifacts that DVC makes first, and that no result depends on: what checks have passed.
        writes: Paths of outputs, in the same way.
        shares: Files that several runs add to, and DVC knows nothing of.
        records: Path of the run's record; empty where it is inside an output.
        metrics: Output that ``dvc metrics`` shows; it is small, and committed with Git.
        parameters: Dotted keys of params.yaml that its result depends on. DVC tracks them, and they are in the record.
        free_parameters: Keys that it may read as well, which change no result beyond rounding.
        keeps: Whether a run that fails leaves the outputs of the last one. False where they cost next to nothing.
        device: "gpu" for a model in one process, "training" for one in ``distributed.num_processes``, else "none".
        cost: What one run of a row takes; None where it is next to nothing.
        parts: What it does one after the other in one process, each with parameters, outputs and an identity of its
            own; a part that is done is not done again. DVC knows the whole stage alone.
        command_template: Its command in dvc.yaml; empty for a part.
    """

    name: str
    description: str
    module: str
    over: str = ""
    chosen_by: tuple[str, ...] = ()
    constants: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, Paths] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    writes: Mapping[str, Paths] = field(default_factory=dict)
    shares: Mapping[str, Paths] = field(default_factory=dict)
    records: str = ""
    metrics: str = ""
    parameters: tuple[str, ...] = ()
    free_parameters: tuple[str, ...] = ()
    keeps: bool = True
    device: Literal["none", "gpu", "training"] = "none"
    cost: "Callable[[Prices, Row], Cost] | None" = None
    parts: tuple["Stage", ...] = ()
    command_template: str = ""

    @property
    def module_name(self) -> str:
        """Dotted name of the module."""
        return f"pipeline.{self.module}" if "." in self.module else f"pipeline.stages.{self.module}"

    @property
    def axis(self) -> str:
        """The axis whose folder the module is in; empty for the others."""
        parts = self.module.split(".")
        return parts[1] if parts[0] == "axes" else ""

    @property
    def runs_engine(self) -> bool:
        """Whether it samples with the engine that ``engine.kind`` names, and so runs one of several modules."""
        return "engine.kind" in self.parameters

    @property
    def inputs(self) -> tuple[str, ...]:
        """Templates of all that it reads."""
        return (*self.after, *self.sources, *flat(self.reads))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Templates of all that it writes, but for ``metrics``."""
        return (*flat(self.writes), *([self.records] if self.records else []))

    def command(self, fill: Callable[[str], str]) -> str:
        """Its command line; ``fill`` gives what stands for a template."""
        if self.command_template:
            return fill(self.command_template)
        options = [*self.constants.items(), *((name, fill(f"{{{name}}}")) for name in self.chosen_by)]
        return " ".join([f"python -m {self.module_name}", *(f"--{name} {value}" for name, value in options)])


def flat(paths: Mapping[str, Paths]) -> tuple[str, ...]:
    """All templates of a mapping, in order."""
    return tuple(path for value in paths.values() for path in ([value] if isinstance(value, str) else value))


def fill(template: str, names: Mapping[str, str]) -> str:
    """Replace ``{name}`` by what ``names`` has for it. Raises KeyError naming one that it has not."""
    parts = []
    for text, name, _, _ in string.Formatter().parse(template):
        parts += [text, names[name] if name is not None else ""]
    return "".join(parts)
