"""The axes of evaluation: a folder with a module ``evaluate`` is one.

It has ``__init__`` (AXIS, what the rest of the pipeline knows of it), ``stages`` (its parts of the stages),
``evaluate`` (from what models answered to metrics, without a model), ``metrics`` (METRICS, each in words), ``report``
(REPORT, its tables and figures), and whatever computation is its own.
"""

import importlib
from pathlib import Path
from types import ModuleType

from pipeline.axes.axis import Axis


def _axes() -> dict[str, Axis]:
    names = (path.parent.name for path in Path(__file__).parent.glob("*/evaluate.py"))
    axes = {name: importlib.import_module(f"{__name__}.{name}").AXIS for name in names}
    return dict(sorted(axes.items(), key=lambda item: (item[1].place, item[0])))


AXES = _axes()
"""Every axis by name, in order."""


def axis_modules(part: str) -> dict[str, ModuleType]:
    """A module of every axis, by the axis, in order: ``metrics``, ``report``, ..."""
    return {name: importlib.import_module(f"{__name__}.{name}.{part}") for name in AXES}
