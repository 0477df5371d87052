"""DVC with YAML parsed once: what it reads and finds is what DVC by itself does."""

import os
from pathlib import Path

import dpath
from dvc.dependency.param import read_param_file
from dvc.fs import localfs
from dvc.utils import strictyaml
from dvc.utils.serialize import _yaml
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.dag import dvc_command

NAMES = st.sampled_from(["a", "b", "a-b", "a_1", "1"])
TREES = st.recursive(
    st.none() | st.integers() | st.just(""),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.integers(0, 2), inner, max_size=3),
    max_leaves=12,
)
PATHS = st.lists(NAMES | st.sampled_from(["*", "a*", "**", "[ab]", "0", "2", ""]), min_size=1, max_size=3)


def outcome(function, *arguments) -> tuple:
    """What it returns, or the error it raises."""
    try:
        return "returned", function(*arguments)
    except (KeyError, ValueError, dpath.exceptions.InvalidGlob) as error:
        return type(error), str(error)


@given(st.dictionaries(NAMES | st.integers(0, 2), TREES, max_size=3), PATHS.map(".".join))
@example({"a": {"b": None}}, "a.b")
@example({"a": [{"b": 1}]}, "a.0.b")
@example({"1": 1, 1: 2}, "1")
@example({"a": 1, "a-b": 2}, "a*")
def test_keys_are_found_as_dpath_finds_them(tree, path):
    original = outcome(lambda: dpath.get(tree, path, separator="."))
    assert outcome(lambda: dvc_command.get(tree, path, separator=".")) == original


def replace(path: Path, text: str) -> None:
    """Write a file anew, with the size and the times of the one before."""
    times = path.stat()
    path.write_text(text)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_parameters_are_parsed_once_and_read_each_time(tmp_path, monkeypatch):
    for owner, name in ((_yaml, "parse_yaml"), (strictyaml, "parse_yaml"), (dpath, "get")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    dvc_command.parse_once()
    path = tmp_path / "params.yaml"
    path.write_text("a: {b: [1, 2]}\n")
    dvc_command._parsed.cache_clear()
    first, second = (read_param_file(localfs, str(path), ["a.b", "c"], flatten=True) for _ in range(2))
    assert first == second == {"a.b": [1, 2]}
    assert dvc_command._parsed.cache_info()[:2] == (1, 1)
    # What one stage does to its parameters, no other sees; what is written in between, every later one.
    first["a.b"].append(3)
    assert read_param_file(localfs, str(path), ["a.b"], flatten=True) == {"a.b": [1, 2]}
    replace(path, "a: {b: [1, 7]}\n")
    assert read_param_file(localfs, str(path), ["a.b"], flatten=True) == {"a.b": [1, 7]}
    # dvc.lock is read in the same way, and with its comments where it is written.
    path.write_text("a: 1  # why\n")
    assert strictyaml.load(str(path))[0] == {"a": 1}
    assert "why" in str(strictyaml.load(str(path), round_trip=True)[0].ca)
