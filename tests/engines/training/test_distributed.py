"""Two processes on the CPU train the adapter that one process trains, whichever way they share the work."""

import json
import shutil
import socket

import pytest
import torch
from safetensors.torch import load_file

from pipeline.engines.loading.model import add_lora, load_model
from pipeline.engines.training.distributed import ProcessGroup, decoder_layers, process_group, single_process
from pipeline.errors import ConfigError, ModelError
from tests.conftest import ROOT
from tests.engines import training_process
from tests.engines.training_process import CASES, STEPS, local_bytes, train
from tests.forked import ForkedModule

# What one process had left when it was killed in its third step, and two processes go on with.
CONTINUED = "ddp_soft"


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def facts_of(directory, case):
    return [json.loads((directory / f"{case}.{rank}.json").read_text()) for rank in (0, 1)]


def adapters_of(directory, case):
    return [load_file(directory / f"{case}.{rank}.safetensors") for rank in (0, 1)]


@pytest.fixture(scope="module")
def config_of(model_config, stand_ins):
    return lambda case: CASES[case].config(model_config, stand_ins["gemma3"].parent)


@pytest.fixture(scope="module")
def launched(config_of, tiny_params, stand_ins, tmp_path_factory):
    """The directory of what two processes left."""
    directory = tmp_path_factory.mktemp("launched")
    train(config_of(CONTINUED), CONTINUED, single_process(), directory, stop=3)
    assert (directory / f"{CONTINUED}.state").exists()
    command = [training_process.__name__, str(tiny_params), str(stand_ins["gemma3"].parent), str(directory)]
    store = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    processes = []
    for rank in ("0", "1"):
        processes.append(ForkedModule(command, ROOT, directory / f"errors{rank}", **store, RANK=rank, LOCAL_RANK=rank))
    assert [process.wait() for process in processes] == [0, 0], [process.errors for process in processes]
    return directory


@pytest.fixture(scope="module")
def alone(config_of, tmp_path_factory):
    directory = tmp_path_factory.mktemp("alone")
    return {case: train(config_of(case), case, single_process(), directory) for case in CASES}


TOLERANCES = {"float32": 1e-5, "bfloat16": 1e-3}


def assert_same_adapter(found, expected, tolerance=1e-5):
    assert found.keys() == expected.keys()
    # The factor that starts at zero is what training made of it, some thousandths here.
    assert min(value.abs().max() for name, value in expected.items() if "lora_B" in name) > 1e-3
    for name, value in expected.items():
        assert found[name].dtype == value.dtype == torch.float32
        # Rounding makes 6e-7 of it in float32, with any number of threads, and 6e-5 in bfloat16 on some processors.
        difference = torch.linalg.vector_norm(found[name] - value) / torch.linalg.vector_norm(value)
        assert difference < tolerance, name


@pytest.mark.parametrize("case", CASES)
def test_two_processes_end_with_the_adapter_of_one(launched, alone, case):
    model, log = alone[case]
    first, second = adapters_of(launched, case)
    assert_same_adapter(first, training_process.adapter(model), TOLERANCES[CASES[case].dtype])
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    logs = [facts["log"] for facts in facts_of(launched, case)]
    for entries in zip(log, *logs, strict=True):
        one, *two = [{key: value for key, value in entry.items() if key != "seconds"} for entry in entries]
        assert two[0] == two[1]
        # Early divergences from the base checkpoint are as small as rounding.
        assert two[0] == pytest.approx(one, rel=TOLERANCES[CASES[case].dtype], abs=1e-6)


@pytest.mark.parametrize("case", ["fsdp_hard", "fsdp_anchored"])
def test_one_process_continues_what_two_began(launched, alone, config_of, tmp_path, case):
    shutil.copy(launched / f"{case}.state", tmp_path)
    model, log = train(config_of(case), case, single_process(), tmp_path)
    assert len(log) == STEPS
    expected = training_process.adapter(alone[case][0])
    assert_same_adapter(training_process.adapter(model), expected, TOLERANCES[CASES[case].dtype])


@pytest.mark.parametrize("case", CASES)
def test_layers_are_shared_out(launched, alone, case):
    inner = alone[case][0].get_base_model()
    parameters = [value for layer in decoder_layers(inner) for value in layer.parameters()]
    whole, adapter = local_bytes(parameters), local_bytes(value for value in parameters if value.requires_grad)
    for found in facts_of(launched, case):
        if case.startswith("fsdp"):
            # Rows are shared out; those of a tensor with an odd number of them by halves rounded up.
            assert found["layers"] == pytest.approx((whole - adapter) / 2 + adapter, rel=0.02)
        else:
            assert found["layers"] == whole


def test_an_adapter_saved_by_processes_that_share_the_model_loads_alone(launched, model_config):
    from peft import PeftModel

    model = PeftModel.from_pretrained(load_model(model_config, device="cpu"), launched / "saved")
    assert_same_adapter(training_process.adapter(model), adapters_of(launched, "fsdp_hard")[1])


def test_the_number_of_processes_must_be_the_configured_one(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ConfigError, match=r"num_processes is 2, but this process was started as one of 1 \(WORLD_SIZE"):
        process_group("ddp", 2).__enter__()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="num_processes is 1, but this process was started as one of 2"):
        process_group("single", 1).__enter__()
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ConfigError, match="WORLD_SIZE is set, but not LOCAL_RANK, MASTER_ADDR, MASTER_PORT"):
        process_group("fsdp", 2).__enter__()


def test_processes_that_see_different_checkpoints_are_told(monkeypatch):
    def gather(found, mine):
        found[:] = [mine, *others]

    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    group = ProcessGroup(0, 3, torch.device("cpu"), shards=False)
    others = [4, 4]
    group.check_same_step(4)
    others = [4, 0]
    with pytest.raises(ConfigError, match=r"checkpoints of steps \[0, 4\]; .* a file system that all of them share"):
        group.check_same_step(4)


def test_decoder_layers_are_the_lists_with_adapters(model_config):
    base = load_model(model_config, device="cpu")
    with pytest.raises(ModelError, match="Qwen3ForCausalLM has no list of layers with LoRA weights; ddp is allowed"):
        decoder_layers(base.requires_grad_(False))
    # A vision tower has a list of layers, too, and no adapter.
    base.vision = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(4)).requires_grad_(False)
    adapted = add_lora(base, model_config, rank=2, alpha=4, dropout=0.0)
    assert decoder_layers(adapted.get_base_model()) == list(base.model.layers)
