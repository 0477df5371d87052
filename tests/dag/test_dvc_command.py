"""DVC with YAML parsed once: what it reads and finds is what DVC by itself does."""

import copy
import os
import tempfile
from pathlib import Path

import dpath
import pytest
from dvc import dvcfile
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


LONG = "python -m a.module " + "--option value " * 9
TRICKY = [LONG, "two\nlines\n", "a: b", "- c", "'", "1e3", "null", "  x", "x:\n  y:\n"]
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12) | st.sampled_from(TRICKY)
# DVC itself changes the last digit of other floats when it writes them once more.
VALUES = st.none() | st.integers() | st.sampled_from([0.1, 2e-3, 1e-05, 1.5]) | WORDS
FILES = st.fixed_dictionaries({"path": WORDS, "md5": WORDS, "size": st.integers(0, 10**12)})
ENTRIES = st.fixed_dictionaries(
    {"cmd": WORDS},
    optional={
        "deps": st.lists(FILES, max_size=3),
        "params": st.dictionaries(WORDS, st.dictionaries(WORDS, VALUES, max_size=2), max_size=2),
    },
)
STAGE_NAMES = st.sampled_from(["train", "train@a-b", "eval@a", "report", "x_1@b"])


@given(st.lists(st.dictionaries(STAGE_NAMES, ENTRIES, min_size=1, max_size=2), min_size=1, max_size=4))
@example([{"train": {"cmd": "a", "params": {}}}, {"train": {"params": {}, "cmd": "a"}}])
def test_the_lock_file_is_the_same_to_the_byte(runs):
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory, name, "dvc.lock") for name in ("theirs", "ours")]
        for path in paths:
            path.parent.mkdir()
        for entries in runs:
            for path, modify in zip(paths, (_yaml.modify_yaml, dvc_command.modify_yaml), strict=True):
                with modify(path) as data:
                    # As DVC does.
                    if not data:
                        data.update({"schema": "2.0"})
                    data["stages"] = data.get("stages", {})
                    data["stages"].update(copy.deepcopy(entries))
            theirs, ours = (path.read_bytes() for path in paths)
            assert theirs == ours


def test_only_the_lock_files_stages_are_replaced(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(dvc_command, "dumps_yaml", lambda data: written.append(data) or _yaml.dumps_yaml(data))
    path = tmp_path / "dvc.lock"
    path.write_text("schema: '2.0'\nstages:\n  a:\n    cmd: one\n  b:\n    cmd: two\n")
    with dvc_command.modify_yaml(path) as data:
        data["stages"]["b"] = {"cmd": "three"}
    assert written == [{"stages": {"b": {"cmd": "three"}}}]
    assert path.read_text() == "schema: '2.0'\nstages:\n  a:\n    cmd: one\n  b:\n    cmd: three\n"
    with dvc_command.modify_yaml(path) as data:
        del data["stages"]["a"]
    assert path.read_text() == "schema: '2.0'\nstages:\n  b:\n    cmd: three\n"
    with dvc_command.modify_yaml(path) as data:
        data["datasets"] = [{"name": "c"}]
    assert path.read_text() == "schema: '2.0'\nstages:\n  b:\n    cmd: three\ndatasets:\n- name: c\n"
    # Whatever else there is, DVC writes itself: data sets, comments, other files.
    for name, text in (
        ("dvc.lock", "schema: '2.0'\nstages:\n  b:\n    cmd: two\ndatasets:\n- name: c\n"),
        ("dvc.lock", "# why\nschema: '2.0'\nstages:\n  b:\n    cmd: two\n"),
        ("dvc.yaml", "schema: '2.0'\nstages:\n  b:\n    cmd: two # why\n"),
    ):
        (tmp_path / name).write_text(text)
        with dvc_command.modify_yaml(tmp_path / name) as data:
            data["stages"]["b"]["cmd"] = "three"
        assert (tmp_path / name).read_text() == text.replace("two", "three")
    assert len(written) == 1


def test_an_error_leaves_the_lock_file_as_it_is(tmp_path):
    path = tmp_path / "dvc.lock"
    path.write_text("schema: '2.0'\nstages:\n  a:\n    cmd: one\n")
    before = path.read_bytes()
    with pytest.raises(RuntimeError), dvc_command.modify_yaml(path) as data:
        data["stages"].clear()
        raise RuntimeError
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_parameters_are_parsed_once_and_read_each_time(tmp_path, monkeypatch):
    patched = ((_yaml, "parse_yaml"), (strictyaml, "parse_yaml"), (dvcfile, "modify_yaml"), (dpath, "get"))
    for owner, name in patched:
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
