"""What Hydra composes from files that are parsed once is what it composes from files."""

import os
import shutil

import pytest

from pipeline.compose import compose_params
from pipeline.errors import ConfigError
from tests.configurations import ConfigRepository, _load
from tests.conftest import ROOT

CHOICES = (
    [],
    ["experiment=paper", "seed=1"],
    ["experiment=laptop_longer", "retention=gsm8k"],
    ["+method@methods.anchored=anchored", "methods=paper"],
    ["experiment=nothing"],
)


def composed(conf, overrides):
    try:
        return compose_params(conf, overrides)
    except ConfigError as error:
        return str(error)


def test_the_same_is_composed_in_any_order(monkeypatch):
    often = [composed(ROOT / "conf", overrides) for overrides in (*CHOICES, *reversed(CHOICES))]
    monkeypatch.setattr(ConfigRepository, "load_config", _load)
    assert often == [composed(ROOT / "conf", overrides) for overrides in (*CHOICES, *reversed(CHOICES))]


@pytest.mark.parametrize("at_once", [False, True])
def test_a_file_that_has_changed_is_parsed_again(tmp_path, at_once):
    conf = tmp_path / "conf"
    shutil.copytree(ROOT / "conf", conf)
    path, before = conf / "paloma" / "demo.yaml", compose_params(conf, [])
    times = path.stat()
    path.write_text(path.read_text() + "max_documents_per_slice: 7\n")
    if at_once:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = compose_params(conf, [])
    assert after["paloma"].pop("max_documents_per_slice") == 7 != before["paloma"].pop("max_documents_per_slice")
    assert after == before
