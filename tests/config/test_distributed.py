"""Which numbers of processes go with which strategy."""

import pytest

from pipeline.config.distributed import DistributedConfig
from pipeline.config.params import validate
from pipeline.errors import ConfigError


@pytest.mark.parametrize(("strategy", "num_processes"), [("single", 1), ("ddp", 2), ("fsdp", 64)])
def test_accepted(strategy, num_processes):
    found = validate({"strategy": strategy, "num_processes": num_processes}, DistributedConfig)
    assert (found.strategy, found.num_processes) == (strategy, num_processes)


@pytest.mark.parametrize(
    ("strategy", "num_processes", "message"),
    [
        ("single", 2, "strategy single with num_processes 2: single goes with 1"),
        ("ddp", 1, "strategy ddp with num_processes 1: .* 2 or more"),
        ("fsdp", 0, "num_processes: .*greater than or equal to 1, got 0"),
        ("fsdp", 2.0, "num_processes: .*got 2.0"),
        ("deepspeed", 2, "strategy: .*'single', 'ddp' or 'fsdp', got 'deepspeed'"),
    ],
)
def test_refused(strategy, num_processes, message):
    with pytest.raises(ConfigError, match=message):
        validate({"strategy": strategy, "num_processes": num_processes}, DistributedConfig)
