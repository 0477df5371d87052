"""One lock for all environments."""

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
