"""What a stage is, and a part of one."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.estimates.cost import Cost

if TYPE_CHECKING:
    from pipeline.config.training import Device
    from pipeline.estimates.prices import Prices

Paths = str | tuple[str, ...]
Row = dict[str, str]
"""One repetition of a stage: what stands for ``{model}``, ``{condition}`` and the like in its declaration."""


@dataclass(frozen=True)
class Stage:
    """A stage of dvc.yaml or a part of one, run once for every row of a table.

    Paths are templates: ``{model}``, ``{condition}`` and the like are the row's, ``{artifacts}`` and ``{reports}`` the
    roots in params.yaml, and ``{dag.NAME}`` a file that depends on the parameters (``pipeline.dag.tables``).
    """

    name: str
    description: str
    module: str  # its ``main`` does the work: in ``pipeline.stages``, or with dots in ``pipeline``
    over: str = ""  # table that it is repeated over, e.g. "asked.open"; empty for a stage that runs once
    chosen_by: tuple[str, ...] = ()  # the row's entries that its command names a run by, e.g. ("model", "condition")
    constants: Mapping[str, str] = field(default_factory=dict)
    """Further options of its command, the same for all rows, e.g. ``{"axis": "mcq"}``."""
    reads: Mapping[str, Paths] = field(default_factory=dict)
    """Inputs by the name of ``main``'s parameter; several for a parameter with a list."""
    sources: tuple[str, ...] = ()  # files and directories that ``main`` finds by its parameters: data and checkpoints
    after: tuple[str, ...] = ()
    """Artifacts that DVC makes first, and that no result depends on: what checks have passed."""
    writes: Mapping[str, Paths] = field(default_factory=dict)
    records: str = ""  # path of the run's record; empty where it is inside an output
    metrics: str = ""  # output that ``dvc metrics`` shows
    parameters: tuple[str, ...] = ()  # dotted keys of params.yaml that its result depends on
    free_parameters: tuple[str, ...] = ()  # keys that it may read as well, which change no result beyond rounding
    keeps: bool = True  # whether a run that fails leaves the outputs of the last one
    device: "Device" = "none"
    cost: "Callable[[Prices, Row], Cost] | None" = None
    parts: tuple["Stage", ...] = ()
    """What it does one after the other in one process; DVC knows the whole stage alone. A part has parameters, outputs
    and an identity of its own, and is not done again where it is done."""
    command_template: str = ""  # its command in dvc.yaml; empty for a part

    @property
    def module_name(self) -> str:
        return f"pipeline.{self.module}" if "." in self.module else f"pipeline.stages.{self.module}"

    @property
    def axis(self) -> str:
        """The axis whose folder the module is in; empty for the others."""
        return self.module.split(".")[1] if self.module.startswith("axes.") else ""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.after, *self.sources, *flat(self.reads))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Templates of all that it writes, but for ``metrics``."""
        return (*flat(self.writes), *([self.records] if self.records else []))

    def command(self, names: Mapping[str, str]) -> str:
        """Its command line; ``names`` as for ``fill``."""
        if self.command_template:
            return fill(self.command_template, names)
        options = {**self.constants, **{name: names[name] for name in self.chosen_by}}
        return " ".join([f"python -m {self.module_name}", *(f"--{name} {value}" for name, value in options.items())])

    def price(self, prices: "Prices", row: Row) -> Cost:
        """What one run takes, without that of parts; nothing where it is declared without a cost."""
        return self.cost(prices, row) if self.cost is not None else Cost()


def flat(paths: Mapping[str, Paths]) -> tuple[str, ...]:
    """All templates of a mapping, in order."""
    return tuple(path for value in paths.values() for path in ([value] if isinstance(value, str) else value))


def fill(template: str, names: Mapping[str, str]) -> str:
    """Replace ``{name}`` by what ``names`` has for it. Raises KeyError naming one that it has not."""
    return re.sub(r"\{([\w.]+)\}", lambda found: names[found[1]], template)
