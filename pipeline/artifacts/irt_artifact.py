"""Item parameters on disk: read once from the published pickle, under a restricted unpickler, then kept as ``.npz``.

The published file (tinyBenchmarks.pkl) holds, by benchmark ("lb": the Open LLM Leaderboard's scenarios; "mmlu"),

    irt_parameters         {"A": float[1, D, N], "B": float[1, D, N]} over the benchmark's items
    seen_examples          positions of the tiny items: 100 per scenario, scenario after scenario
    examples_weights       {scenario: float[100]}
    optimal_lambdas        {scenario: float}
    scenarios_position     {scenario: positions of its items}
    subscenarios_position  {scenario: {sub-scenario: positions of its items}}

A pickle can run any code when it is read. ``read_published`` therefore refuses a file whose SHA-256 is not the one
expected before it opens it, and builds nothing but NumPy arrays, numbers, text and plain containers.
"""

import io
import pickle
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.artifacts.atomic import atomic_path
from pipeline.artifacts.storage import require, sha256_file
from pipeline.core.retention.irt import SCENARIOS, IrtScenario, balance_weights
from pipeline.errors import ArtifactError

FIELDS = tuple(field.name for field in fields(IrtScenario))
TRUTHFULQA = "harness_truthfulqa_mc_0"
"""Name that the scenario truthfulqa has in the published file."""


ALLOWED = {
    "numpy": ("ndarray", "dtype", "_reconstruct", "scalar", "_frombuffer"),
    "_codecs": ("encode",),
    "collections": ("OrderedDict",),
    **dict.fromkeys(("builtins", "__builtin__"), ("set", "frozenset")),
}
"""Names that may be loaded, by top-level module, Python 2's among them."""


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """One of ALLOWED; nothing else is even imported."""
        if name not in ALLOWED.get(module.partition(".")[0], ()):
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is no array and no plain container")
        # NumPy 2 has moved what NumPy 1 pickled.
        return super().find_class(module.replace("numpy.core.", "numpy._core."), name)


def verify_sha256(path: Path, expected: str) -> None:
    """Raise ArtifactError, naming both hashes, unless the file's SHA-256 is the expected one."""
    found = sha256_file(require(path))
    if found != expected.lower():
        raise ArtifactError(
            f"{path} has SHA-256 {found}, but retention.irt_sha256 is {expected}; it was not opened. "
            "Get the published file again, or correct the setting if you trust this one"
        )


def read_published(path: Path, sha256: str) -> dict:
    """The published pickle's content. Raises ArtifactError on a wrong hash, refused or broken content."""
    verify_sha256(path, sha256)
    try:
        content = _ArrayUnpickler(io.BytesIO(path.read_bytes())).load()
    # A truncated or crafted pickle fails in any of these ways before it has built anything of use.
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise ArtifactError(f"{path} cannot be read as a pickle of arrays: {error}") from None
    if not isinstance(content, dict):
        raise ArtifactError(f"{path} holds a {type(content).__name__}, not a dictionary of benchmarks")
    return content


def _published_scenario(content: Mapping[str, Any], scenario: str) -> IrtScenario:
    """One scenario, its positions counted from 0."""
    bench = content["mmlu" if scenario == "mmlu" else "lb"]
    name = TRUTHFULQA if scenario == "truthfulqa" and TRUTHFULQA in bench["scenarios_position"] else scenario
    items = np.asarray(bench["scenarios_position"][name], dtype=np.int64)
    place = {position: index for index, position in enumerate(items.tolist())}
    a, b = (np.asarray(bench["irt_parameters"][part], dtype=np.float64) for part in "AB")
    if a.ndim != 3 or b.ndim != 3 or a.shape[0] != 1:
        raise ValueError(f"item parameters have shapes {a.shape} and {b.shape}, not [1, dimensions, items]")
    subscenarios = [
        np.array([place[p] for p in np.asarray(members).tolist()], dtype=np.int64)
        for members in bench["subscenarios_position"][name].values()
    ]
    return IrtScenario(
        discriminations=np.ascontiguousarray(a[0][:, items]),
        # B may hold one number per item: the package then subtracts it in every dimension.
        offsets=np.broadcast_to(b, a.shape)[0].sum(axis=0)[items],
        seen=np.array([place[p] for p in np.asarray(bench["seen_examples"]).tolist() if p in place], dtype=np.int64),
        seen_weights=np.asarray(bench["examples_weights"][name], dtype=np.float64).ravel(),
        balance_weights=balance_weights(subscenarios, len(items)),
        mixing_weight=float(bench["optimal_lambdas"][name]),
    )


def convert_published(content: Mapping[str, Any], source: str) -> dict[str, IrtScenario]:
    """The five scenarios of the published structure. Raises ArtifactError naming ``source`` and the scenario."""
    scenarios = {}
    for scenario in SCENARIOS.values():
        try:
            scenarios[scenario] = _published_scenario(content, scenario)
        except KeyError as error:
            raise ArtifactError(f"{source} has no {error} for the scenario {scenario!r}") from None
        except (ValueError, TypeError, IndexError) as error:
            raise ArtifactError(f"{source}, scenario {scenario!r}: {error}") from None
    return scenarios


def write_irt(path: Path, scenarios: Mapping[str, IrtScenario]) -> None:
    """Write scenarios as ``.npz``, one array ``SCENARIO.FIELD`` per field."""
    arrays = {f"{name}.{field}": np.asarray(getattr(s, field)) for name, s in scenarios.items() for field in FIELDS}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_irt(path: Path) -> dict[str, IrtScenario]:
    """Scenarios from an ``.npz`` file that ``write_irt`` wrote. Raises ArtifactError; nothing is unpickled."""
    if not zipfile.is_zipfile(require(path)):
        raise ArtifactError(f"{path} is truncated or not an .npz file")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        scenarios = {}
        for name in dict.fromkeys(key.rpartition(".")[0] for key in arrays):
            parts = {field: arrays[f"{name}.{field}"] for field in FIELDS}
            scenarios[name] = IrtScenario(**parts | {"mixing_weight": float(parts["mixing_weight"])})
        return scenarios
    except KeyError as error:
        raise ArtifactError(f"{path} has no array {error}; it has {sorted(arrays)}") from None
    except (ValueError, TypeError, IndexError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ArtifactError(f"{path} is not an .npz file of plain arrays ({error})") from None
