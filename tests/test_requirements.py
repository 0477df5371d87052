"""One lock for all environments: what pip is asked to install together can be installed together."""

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


@pytest.mark.slow
@pytest.mark.parametrize(("python", "files"), [("3.11", FILES), ("3.12", FILES), ("3.13", FILES[:1])])
def test_an_environment_resolves(tmp_path, python, files):
    """Every version that is chosen is the lock's; uv is asked for what pip would install."""
    words = ["uv", "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--python-platform", "linux"]
    words += ["--python-version", python, "--constraint", str(ROOT / "constraints.txt")]
    words += [str(ROOT / name) for name in files]
    for options in (["--offline"], []):
        # What an index says of a version does not change once it is out, so what uv has cached is asked first.
        found = subprocess.run([sys.executable, "-m", *words, *options], capture_output=True, text=True, cwd=tmp_path)
        if not found.returncode:
            break
    if found.returncode and "No solution found" not in found.stderr:
        pytest.skip(f"the package index is not reached: {found.stderr.strip().splitlines()[0]}")
    assert found.returncode == 0, found.stderr
    chosen = dict(line.split("==") for line in found.stdout.split() if "==" in line)
    lock = pins("constraints.txt")
    assert {name for name, version in chosen.items() if lock.get(canonicalize_name(name)) != f"=={version}"} == set()
