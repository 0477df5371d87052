"""The command line of a stage in this process, for tests that a process is not the point of."""

import runpy
import sys

import pytest


def run_command_line(monkeypatch: pytest.MonkeyPatch, module: str, *arguments: object) -> None:
    """Do what ``python -m MODULE ARGUMENTS`` does; raises SystemExit where that ends with a status."""
    monkeypatch.setattr(sys, "argv", [module, *map(str, arguments)])
    monkeypatch.delitem(sys.modules, module, raising=False)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
