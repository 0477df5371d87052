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


def resolve(environment, directory, *options):
    """A dry run of pip's task by uv: standard output, standard error and exit status are to come."""
    python, files = environment
    words = ["uv", "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--python-platform", "linux"]
    words += ["--python-version", python, "--constraint", str(ROOT / "constraints.txt"), *options]
    words += [str(ROOT / name) for name in files]
    command = [sys.executable, "-m", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=directory)


@pytest.fixture(scope="module")
def resolutions(tmp_path_factory):
    """Each environment's resolution and what it has printed.

    What an index says of a version does not change once it is out, so what uv has cached is asked first; those for
    which something is missing there wait for the package index, all at once.
    """
    found = {}
    for options in (["--offline"], []):
        missing = [name for name in ENVIRONMENTS if name not in found or found[name][0].returncode]
        with contextlib.ExitStack() as started:
            directories = [tmp_path_factory.mktemp("resolution") for _ in missing]
            runs = [started.enter_context(resolve(*pair, *options)) for pair in zip(missing, directories, strict=True)]
            found |= {name: (run, *run.communicate()) for name, run in zip(missing, runs, strict=True)}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environment_resolves(resolutions, environment):
    """Every version that is chosen is the lock's."""
    found, printed, errors = resolutions[environment]
    if found.returncode and "No solution found" not in errors:
        pytest.skip(f"the package index is not reached: {errors.strip().splitlines()[0]}")
    assert found.returncode == 0, errors
    chosen = dict(line.split("==") for line in printed.split() if "==" in line)
    lock = pins("constraints.txt")
    assert {name for name, version in chosen.items() if lock.get(canonicalize_name(name)) != f"=={version}"} == set()
