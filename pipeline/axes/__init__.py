"""The axes of evaluation: a folder with a module ``evaluate`` (metrics from what models answered, without a model) is
one. ``__init__`` has AXIS, ``metrics`` METRICS, ``report`` REPORT, ``stages`` its parts of the stages."""

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
