"""Hydra's files parsed once: what is read is what OmegaConf by itself reads."""

from pathlib import Path

import hydra
import pytest
from omegaconf import OmegaConf
from yaml.constructor import ConstructorError

from pipeline.config.hydra_files import _load, load
from tests.conftest import ROOT


def read(loader, path: Path):
    with path.open(encoding="utf-8") as file:
        return loader(file)


def test_files_are_read_as_omegaconf_reads_them(tmp_path):
    # Numbers and dates that YAML takes for other than OmegaConf does.
    (tmp_path / "numbers.yaml").write_text("a: 1e-3\nb: [2020-01-01, .5, 1_0, '1', 0x1, yes, ~]\nc: ${a}\n")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    for directory in (ROOT / "conf", Path(hydra.__file__).parent, tmp_path):
        for path in directory.rglob("*.yaml"):
            expected, found = read(_load, path), read(load, path)
            assert type(found) is type(expected) and OmegaConf.to_yaml(found) == OmegaConf.to_yaml(expected), path


def test_no_reader_sees_what_another_changes_and_all_see_a_changed_file(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: {b: [1]}\n")
    first = read(load, path)
    first.a.b.append(2)
    assert read(load, path) == {"a": {"b": [1]}}
    path.write_text("a: {b: [7]}\n")
    assert read(load, path) == load(path) == {"a": {"b": [7]}}


def test_a_key_that_is_given_twice_is_refused(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\na: 2\n")
    with pytest.raises(ConstructorError, match="found duplicate key a"):
        read(load, path)
