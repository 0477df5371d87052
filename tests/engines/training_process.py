"""One of the processes that tests/engines/training/test_distributed.py starts; also the cases that it runs alone."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from peft import get_peft_model_state_dict
from safetensors.torch import save_file

from pipeline.config.models import ModelConfig
from pipeline.core.training.examples import anchor_example, hard_example, soft_example
from pipeline.core.training.objectives import Objective, anchor_loss, hard_target_loss, soft_target_loss
from pipeline.engines.loading.model import add_lora, load_model
from pipeline.engines.training.distributed import ProcessGroup, decoder_layers, process_group
from pipeline.engines.training.fit import Term, fit, save_adapter
from tests.engines.training import worlds
from tests.engines.training.worlds import BRANCHING as TRIE

STEPS = 5
SETTINGS = replace(worlds.SETTINGS, max_grad_norm=1.0, micro_batch_size=2)


def prompts(step: int) -> list[list[int]]:
    """Five prompts of different lengths, which are three passes of at most two; two, one pass, in the last step."""
    return [[20 + step, *range(21, 23 + index)] for index in range(2 if step == STEPS - 1 else 5)]


def soft_trees(step: int) -> list:
    return [soft_example(prompt, TRIE, np.random.default_rng([step, i]), 4) for i, prompt in enumerate(prompts(step))]


def hard_chains(step: int) -> list:
    return [
        hard_example(prompt, [TRIE.sample_path(np.random.default_rng([step, i]))[0]])
        for i, prompt in enumerate(prompts(step))
    ]


def replies(step: int) -> list:
    return [anchor_example([30 + step, 31], range(32, 35 + index), 32) for index in range(3)]


@dataclass(frozen=True)
class Case:
    """What is trained, and whether the layers of the base model are shared out."""

    make_examples: Callable[[int], list]
    objective: Objective
    shards: bool
    dtype: str
    stand_in: str = ""
    anchored: bool = False

    @property
    def terms(self) -> list[Term]:
        """The targets, and replies on which the adapted model is held near its base checkpoint."""
        targets = Term("targets", self.make_examples, self.objective)
        held = Term("anchors", replies, anchor_loss, 0.5, compares=True)
        return [targets, held] if self.anchored else [targets]

    def config(self, model_config: ModelConfig, stand_ins: Path) -> ModelConfig:
        """The tiny model's configuration, or that of a stand-in of another architecture."""
        if not self.stand_in:
            return replace(model_config, dtype=self.dtype)
        return replace(
            model_config,
            dtype=self.dtype,
            checkpoint=str(stand_ins / self.stand_in),
            lora_target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
            attention="eager" if self.stand_in == "gpt_oss" else "sdpa",
        )


# A language model inside of another, and experts; the layers of other architectures are found as the tiny model's.
ARCHITECTURES = ("gemma3", "gpt_oss")
CASES = {
    "ddp_soft": Case(soft_trees, soft_target_loss, False, "float32"),
    "fsdp_hard": Case(hard_chains, hard_target_loss, True, "float32"),
    "fsdp_anchored": Case(soft_trees, soft_target_loss, True, "float32", anchored=True),
    **{f"fsdp_{name}": Case(soft_trees, soft_target_loss, True, "bfloat16", name) for name in ARCHITECTURES},
}


def train(model_config: ModelConfig, case: str, group: ProcessGroup, directory: Path, stop: int | None = None):
    """Train a case, of which ``stop`` is the step not to survive; return the model and the log.

    The checkpoint is CASE.state in the directory.
    """
    chosen = CASES[case]
    group = replace(group, shards=chosen.shards and group.size > 1)
    base = load_model(model_config, device="cpu")
    torch.manual_seed(0)
    model = group.distribute(add_lora(base, model_config, rank=4, alpha=8, dropout=0.2))

    def on_step(record):
        if record["step"] == stop:
            raise InterruptedError

    log: list[dict] = []
    with contextlib.suppress(InterruptedError):
        log = fit(
            model,
            chosen.terms,
            STEPS,
            SETTINGS,
            seed=1,
            stream=("tiny", case),
            pad_id=0,
            checkpoint=directory / f"{case}.state",
            on_step=on_step,
            group=group,
        )
    return model, log


def adapter(model) -> dict[str, torch.Tensor]:
    """The adapter's weights under their PEFT names."""
    return {name: value.detach().contiguous() for name, value in get_peft_model_state_dict(model).items()}


def local_bytes(parameters: Iterator[torch.nn.Parameter]) -> int:
    """Bytes that this process keeps of the parameters."""
    return sum(value.numel() * value.element_size() for value in (getattr(p, "_local_tensor", p) for p in parameters))


def main(model_config: ModelConfig, stand_ins: Path, directory: Path) -> None:
    """Train every case as one of two processes."""
    with process_group("ddp", 2) as group:
        for case in CASES:
            model, log = train(CASES[case].config(model_config, stand_ins), case, group, directory)
            layers = decoder_layers(model.get_base_model())
            facts = {"log": log, "layers": local_bytes(value for layer in layers for value in layer.parameters())}
            (directory / f"{case}.{group.rank}.json").write_text(json.dumps(facts))
            save_file(adapter(model), directory / f"{case}.{group.rank}.safetensors")
            if case == "fsdp_hard" and group.rank == 0:
                save_adapter(model, directory / "saved")


if __name__ == "__main__":
    from pipeline.config.params import load_params

    main(load_params(Path(sys.argv[1])).models["embedded"], Path(sys.argv[2]), Path(sys.argv[3]))
