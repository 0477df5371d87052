"""The sections ``retention``, ``paloma`` and ``tests`` of ``params.yaml``: what models keep; which changes matter."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictInt, model_validator
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, OpenShare, PositiveFloat, PositiveInt

TINY_TASKS = ("tinyMMLU", "tinyHellaswag", "tinyTruthfulQA", "tinyWinogrande", "tinyGSM8k")
WHOLE_TASKS = {"gsm8k": "openai/gsm8k"}
"""Whole benchmarks that a tiny task is taken from, and their data sets on the hub."""
Task = Literal[(*TINY_TASKS, *WHOLE_TASKS)]


def is_local_path(source: str) -> bool:
    """Whether a source is a file or directory, or meant to be one, rather than something of the hub."""
    local = source.startswith(("/", "./", "../", "data/", "models/")) or source.endswith(".jsonl")
    return local or Path(source).is_dir()


def task_data_set(source: str, task: str) -> str:
    """Data set of a task where ``source`` is an organisation of the hub."""
    return WHOLE_TASKS.get(task, f"{source}/{task}")


@dataclass(frozen=True, config=STRICT)
class TestsConfig:
    """Tests between conditions, with the smallest differences that matter."""

    significance: Annotated[float, Field(strict=True, gt=0, lt=0.5)]
    """Level of every question, over its splits, tasks or slices together (Holm)."""
    wasserstein_margin: PositiveFloat
    """Of normalised W1, or of W1 on the PIT scale. A condition is called calibrated where its W1 is shown to exceed a
    perfect sampler's by less."""
    logit_kl_margin: PositiveFloat  # in nats
    accuracy_margin: OpenShare


@dataclass(frozen=True, config=STRICT)
class RetentionConfig:
    source: str  # hub organisation of the tiny tasks, or a local directory with one folder per task
    revisions: dict[Task, str | None]
    """Commit of each task's data set on the hub; null takes the current one, which is recorded."""
    tasks: Annotated[list[Task], Field(min_length=1)]
    """gsm8k is the whole test split (1,319 problems), alone or beside the 100 of tinyGSM8k."""
    prompt_format: Literal["chat", "plain"]
    """One user turn of the model's chat template, or plain text, which a model without a template gets in any case."""
    max_new_tokens: PositiveInt  # of a GSM8K answer
    tokens_per_pass: PositiveInt
    irt_artifact: str  # the benchmark's pickle of item parameters, or an .npz file that was made from it
    irt_sha256: str | None  # required for a pickle
    decoding: Literal["greedy", "checkpoint"] = "greedy"
    """Of GSM8K's answers: the most probable token, or as the released code does, which asks for that and samples where
    the checkpoint's generation_config.json does."""
    scoring: Literal["harness", "released_code"] = "harness"
    """Of items: as lm-evaluation-harness does, or with a blank before every choice, WinoGrande by ``acc``, and strict
    GSM8K only where an answer has one marked number."""

    @model_validator(mode="after")
    def _tasks_fit(self) -> "RetentionConfig":
        if "gsm8k" in self.tasks and self.tasks != ["gsm8k"] and "tinyGSM8k" not in self.tasks:
            raise ValueError("tasks has gsm8k, which is evaluated alone or beside tinyGSM8k: add it")
        return self


@dataclass(frozen=True, config=STRICT)
class PalomaConfig:
    source: str  # local directory in the published layout (SLICE/SPLIT/*.jsonl.gz), or the hub's data set
    revision: str | None
    split: Literal["test", "val"]
    slices: Annotated[list[str], Field(min_length=1)]
    window: Annotated[StrictInt, Field(ge=2)]  # in tokens
    stride: PositiveInt  # tokens that each further window adds; the others are what they are read after
    bos: Annotated[list[Literal["model", "none"]], Field(min_length=1)]
    """Variants to score: with the model's BOS token where it has one, or without (the paper)."""
    tokens_per_pass: PositiveInt
    max_documents_per_slice: PositiveInt | None  # score the first so many

    @model_validator(mode="after")
    def _windows_overlap(self) -> "PalomaConfig":
        if self.stride >= self.window:
            raise ValueError(f"stride {self.stride} must be less than window {self.window}")
        if len(set(self.slices)) < len(self.slices):
            raise ValueError(f"slices {self.slices} has a slice twice")
        return self


def irt_is_pickle(config: RetentionConfig) -> bool:
    """Whether the item parameters are in the published form."""
    return not config.irt_artifact.endswith(".npz")
