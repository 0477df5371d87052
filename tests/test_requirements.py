"""One lock for all environments: what pip is asked to install together can be installed together."""

import contextlib
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

FILES = ("requirements.txt", "requirements-vllm.txt")


def pins(name: str) -> dict[str, str]:
    """Versions by package of a file of exact pins."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    found = [Requirement(line) for line in lines if line]
    return {canonicalize_name(item.name): str(item.specifier) for item in found}


def test_the_lock_has_every_direct_requirement():
    lock = pins("constraints.txt")
    for name in FILES:
        for package, version in pins(name).items():
            assert version.startswith("==") and lock.get(package) == version, f"{name}: {package}{version}"


ENVIRONMENTS = (("3.11", FILES), ("3.12", FILES), ("3.13", FILES[:1]))


@pytest.fixture(scope="module")
def resolutions(tmp_path_factory):
    """A dry run of pip's task by uv for each environment; all wait for the package index at once."""

    def start(python, files):
        words = ["uv", "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--python-platform", "linux"]
        words += ["--python-version", python, "--constraint", str(ROOT / "constraints.txt")]
        words += [str(ROOT / name) for name in files]
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path_factory.mktemp(python),
        )

    with contextlib.ExitStack() as started:
        yield {environment: started.enter_context(start(*environment)) for environment in ENVIRONMENTS}


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environment_resolves(resolutions, environment):
    """Every version that is chosen is the lock's."""
    found = resolutions[environment]
    printed, errors = found.communicate()
    if found.returncode and "No solution found" not in errors:
        pytest.skip(f"the package index is not reached: {errors.strip().splitlines()[0]}")
    assert found.returncode == 0, errors
    chosen = dict(line.split("==") for line in printed.split() if "==" in line)
    lock = pins("constraints.txt")
    assert {name for name, version in chosen.items() if lock.get(canonicalize_name(name)) != f"=={version}"} == set()
