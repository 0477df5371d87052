"""Fixtures: a tiny random model of the embedded model's kind, and parameters for a DAG of seconds.

Property tests take the same examples in every run; ``pytest --hypothesis-profile=random`` takes new ones.
"""

import os
import random
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("WANDB_MODE", "disabled")
# Another number of threads would round otherwise than the processes that tests start, and is no faster at this size.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Tiny models in several processes at once: spinning threads would only take each other's cores.
os.environ.setdefault("GOMP_SPINCOUNT", "0")

# In the background of a shell SIGINT is ignored, and would be by the processes that are to be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Nothing that depends on how busy the machine is, and nothing that fails in one run of many.
FIXED = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", FIXED)
settings.register_profile("random", FIXED, derandomize=False)
settings.load_profile("fixed")

ROOT = Path(__file__).resolve().parents[1]
# Processes that tests start find the project wherever they run.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))

SLOW_FIXTURES = {"tiny_model", "stand_ins", "environment", "two_models"}
"""What takes seconds to make, or is made for tests that take seconds."""
SHARED_FIXTURES = ("dag",)
"""What takes seconds to make, and is made once by one worker."""
TINY_OVERRIDES = (
    "methods=paper",
    "axes=[structured,open,mcq,novelty,retention,paloma,anchors,human,semcal,credal,uncertainty,inv_entropy]",
    "prompts.families=[gaussian,binomial,uniform,bernoulli,poisson,maxwell]",
    "prompts.train_prompts_per_family=3",
    "discretize.soft={num_decimals:2,max_bins:60}",
    "discretize.hard={num_decimals:2,max_bins:80}",
    "discretize.eval={num_decimals:2,max_bins:80}",
    "train.global_batch_size=4",
    "train.micro_batch_size=2",
    "train.checkpoint_every_steps=2",
    "train.soft={epochs:2,samples_per_prompt:1,paths_per_prompt:1}",
    "train.hard={epochs:1,samples_per_prompt:2,completions_per_prompt:1}",
    "generate.structured={num_samples:12,max_new_tokens:6,batch_size:5}",
    "generate.open={num_samples:4,max_new_tokens:3,batch_size:4}",
    "generate.mcq={num_samples:7,max_new_tokens:6,batch_size:3}",
    "generate.novelty={num_samples:4,max_new_tokens:6,batch_size:4}",
    "generate.anchors={num_samples:2,max_new_tokens:6,batch_size:8}",
    "generate.instructions={num_samples:2,max_new_tokens:6,batch_size:8}",
    "generate.questions={num_samples:4,max_new_tokens:4,batch_size:64}",
    "prompts.questions.max_prompts=4",
    "prompts.perturbations={number:2,max_questions:3}",
    "generate.perturbations={num_samples:2,max_new_tokens:4,batch_size:64}",
    "generate.ssot={enabled:true,num_samples:5,max_new_tokens:12,batch_size:5}",
    "prompts.novelty.max_prompts_per_split=3",
    "prompts.instructions.max_prompts=16",
    "evaluate={paths_per_prompt:2,bootstrap_replicates:100,floor_replicates:20,exact_max_prefixes:300}",
    "evaluate.bounds_max_positions=200",
    "retention={tasks:[tinyMMLU,tinyGSM8k],max_new_tokens:4}",
    "paloma={slices:[prose,numbers],window:64,stride:32,max_documents_per_slice:3}",
    "tracking.mode=disabled",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first; a file stays with one worker, and so do all that share what is made once.

    Tests with a model, a server or processes of their own are slow. Those of real servers run only where they are
    asked for.
    """
    asked_for = "real" in config.option.markexpr.split()
    items.sort(key=lambda item: "stages" not in item.path.parts)
    sharing = {
        item.path: name for name in SHARED_FIXTURES for item in items if name in getattr(item, "fixturenames", ())
    }
    for item in items:
        if SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
        if not asked_for and item.get_closest_marker("real"):
            item.add_marker(pytest.mark.skip("needs packages from the registry: make test-real"))
        item.add_marker(pytest.mark.xdist_group(sharing.get(item.path, str(item.path.relative_to(ROOT)))))


def reset_global_state() -> None:
    """Let a test or fixture find the same seeds and number of threads, whichever tests ran before."""
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    """Before what the fixture itself does; what it asks for has been set up."""
    reset_global_state()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """Before what the test itself does."""
    reset_global_state()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> Path:
    """A checkpoint directory: Qwen3 architecture, 2 layers, random weights, the embedded tokenizer's kind."""
    from scripts.embedded_model.recipe import Recipe, make_model
    from scripts.embedded_model.tokenizer import train_tokenizer
    from tests.stand_ins import SHAPE

    directory = tmp_path_factory.mktemp("models") / "tiny"
    recipe = Recipe(**SHAPE)
    tokenizer = train_tokenizer(["Generate exactly ONE random number. Output ONLY the number."] * 4, 300)
    model = make_model(recipe, tokenizer)
    # Larger embeddings let the random model's logits be sharp, so that an adapter can learn.
    model.get_input_embeddings().weight.data.mul_(8)
    # Sampling defaults like those of real chat checkpoints, which the pipeline must not pick up.
    model.generation_config.update(do_sample=True, temperature=0.1, top_k=1, top_p=0.5)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def tiny_params(tiny_model, tmp_path_factory) -> Path:
    """A params.yaml that runs the demo experiment's DAG, and that of questions, on the tiny model in seconds."""
    from pipeline.compose import compose_params, render
    from tests.stages.dvc.clones import FEW_OPEN_PROMPTS, write_few_open_prompts, write_short_tasks

    path = tmp_path_factory.mktemp("params") / "params.yaml"
    write_few_open_prompts(path.parent)
    write_short_tasks(path.parent / "retention")
    own = {
        "models.embedded.checkpoint": tiny_model,
        "artifacts": path.parent / "artifacts",
        "prompts.open.source": path.parent / FEW_OPEN_PROMPTS,
        "retention.source": path.parent / "retention",
    }
    overrides = [*TINY_OVERRIDES, *(f"{key}={value}" for key, value in own.items())]
    path.write_text(render(compose_params(ROOT / "conf", overrides), overrides))
    return path


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory) -> dict[str, Path]:
    """Directories of the tiny random checkpoints of the paper's architectures and evaluators, by name."""
    from tests.stand_ins.checkpoints import write_stand_ins

    return write_stand_ins(tmp_path_factory.mktemp("stand_ins"))
