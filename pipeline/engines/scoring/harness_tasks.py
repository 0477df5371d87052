"""The tasks as lm-evaluation-harness defines them, without its aggregation.

Why the harness: prompts, few-shot draws, answer extraction and metrics are then those of the published
tasks, not a reading of them. lm-eval 0.4.13 installs with our pins, takes a data set that is already loaded,
and needs no network. Its task files name an aggregation from a package that is not on
PyPI; they are read here with the mean in its place, and gp-IRT is computed in ``pipeline.core.retention.irt``.
What each task measures is described in ``pipeline.core.retention.tasks``.
"""

import functools
import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import datasets
import lm_eval.tasks
import lm_eval.utils
import numpy as np
import yaml
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from pipeline.core.retention.tasks import FEWSHOT_SEED, METRICS

Render = Callable[[Sequence[Mapping[str, str]]], str]
"""A chat template: the text of a conversation up to where the answer starts."""
_PACKAGE = "lm_eval.tasks.tinyBenchmarks"
_DIRECTORY = Path(lm_eval.tasks.__file__).parent
_FOLDERS = {"gsm8k": "gsm8k"}
"""Folder of a task's file, where it is not the tiny tasks'."""
# The harness would compile a task's templates anew for each of its items, which takes longer than to fill them.
lm_eval.utils.env.from_string = functools.lru_cache(lm_eval.utils.env.from_string)
_AGGREGATION = "agg_functions."

# Harness task, harness metric and answer filter behind each of our metrics.
_SOURCES: dict[str, dict[str, tuple[str, str, str]]] = {
    "tinyMMLU": {name: ("tinyMMLU", name, "none") for name in ("acc_norm", "acc")},
    "tinyHellaswag": {name: ("tinyHellaswag", name, "none") for name in ("acc_norm", "acc")},
    "tinyTruthfulQA": {
        "mc2": ("tinyTruthfulQA_mc2", "acc", "none"),
        "acc": ("tinyTruthfulQA_mc1", "acc", "none"),
    },
    "tinyWinogrande": {name: ("tinyWinogrande", name, "none") for name in ("acc_norm", "acc")},
    "tinyGSM8k": {
        "exact_match_strict": ("tinyGSM8k", "exact_match", "strict-match"),
        "exact_match_flexible": ("tinyGSM8k", "exact_match", "flexible-extract"),
    },
    "gsm8k": {
        "exact_match_strict": ("gsm8k", "exact_match", "strict-match"),
        "exact_match_flexible": ("gsm8k", "exact_match", "flexible-extract"),
    },
}


class _TaskLoader(yaml.SafeLoader):
    """Task files: safe YAML plus references to the functions beside them."""


def _function(loader: yaml.Loader, node: yaml.Node) -> Any:
    name = loader.construct_scalar(node)
    if name.startswith(_AGGREGATION):
        return "mean"
    module, function = name.split(".")
    return getattr(importlib.import_module(f"{_PACKAGE}.{module}"), function)


_TaskLoader.add_constructor("!function", _function)


def task_config(name: str) -> dict[str, Any]:
    """A task file of the harness, with what it includes, and with the mean for its aggregation."""
    with (_DIRECTORY / _FOLDERS.get(name, "tinyBenchmarks") / f"{name}.yaml").open(encoding="utf-8") as file:
        # A subclass of SafeLoader: only the harness's own functions are resolved.
        config = yaml.load(file, _TaskLoader)
    if included := config.pop("include", None):
        config = {**task_config(included.removesuffix(".yaml")), **config}
    return config


class _LoadedTask(ConfigurableTask):
    """A task of the harness over splits that are already loaded."""

    def __init__(self, config: Mapping[str, Any], data: datasets.DatasetDict):
        self._loaded = data
        super().__init__(config=dict(config))

    def download(self, *_: Any, **__: Any) -> None:
        self.dataset = self._loaded


def harness_task(
    name: str, data: datasets.DatasetDict, render: Render | None = None, multiturn: bool = False
) -> ConfigurableTask:
    """The harness's task over loaded splits, its requests built with the harness's few-shot seed.

    Args:
        name: Name of the task file.
        data: Its splits.
        render: The chat template that prompts are put in; None for plain text.
        multiturn: Whether few-shot examples are turns of their own in it, and not one user turn with the item.
    """
    config = task_config(name)
    if config["output_type"] == "multiple_choice" and "process_results" not in config:
        mean = {"aggregation": "mean", "higher_is_better": True}
        config["metric_list"] = [{"metric": metric, **mean} for metric in ("acc", "acc_norm")]
    # The harness remarks on its own task files, and draws a progress bar for what takes no time.
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stderr(StringIO()):
            task = _LoadedTask(config, data)
            task.set_fewshot_seed(FEWSHOT_SEED)
            task.build_all_requests(
                apply_chat_template=render is not None,
                fewshot_as_multiturn=multiturn,
                # No task begins the answer itself, so that the generation prompt is always wanted.
                chat_template=render and (lambda messages, add_generation_prompt: render(messages)),
            )
    finally:
        logger.setLevel(level)
    return task


@dataclass(frozen=True)
class Outcome:
    """One metric of one item.

    Attributes:
        item: Position in the task's split.
        metric: One of ``METRICS[task]``.
        value: In [0, 1].
        details: What the model answered, for a reader.
    """

    item: int
    metric: str
    value: float
    details: Mapping[str, Any]


class RetentionTask:
    """One task: the requests that it puts to a model, and what the answers are worth.

    Args:
        name: A key of ``TASKS``.
        data: Its splits.
        render: See ``harness_task``.
        multiturn: See ``harness_task``.

    Attributes:
        requests: (request type, arguments) of everything to ask, in order.
    """

    def __init__(self, name: str, data: datasets.DatasetDict, render: Render | None = None, multiturn: bool = False):
        self.name = name
        sources = dict.fromkeys(source for source, _, _ in _SOURCES[name].values())
        self._tasks = {source: harness_task(source, data, render, multiturn) for source in sources}

    @property
    def requests(self) -> list[tuple[str, tuple]]:
        return [(instance.request_type, instance.args) for instance in self._instances()]

    def _instances(self) -> list[Instance]:
        return [instance for task in self._tasks.values() for instance in task.instances]

    def outcomes(self, responses: Sequence[Any]) -> list[Outcome]:
        """Every metric of every item, from the responses to ``requests``, in that order, as HarnessModel gives them."""
        generated = {}
        for instance, response in zip(self._instances(), responses, strict=True):
            if instance.request_type == "generate_until":
                generated[instance.doc_id], response = response, response["text"]
            instance.resps = [tuple(response) if isinstance(response, list) else response]
        for task in self._tasks.values():
            task.apply_filters()
        return [
            outcome
            for metric in METRICS[self.name]
            for outcome in self._metric_outcomes(metric, *_SOURCES[self.name][metric], generated)
        ]

    def _metric_outcomes(
        self, metric: str, source: str, harness_metric: str, answer_filter: str, generated: Mapping[int, Mapping]
    ) -> list[Outcome]:
        task = self._tasks[source]
        by_item: dict[int, list[Instance]] = {}
        for instance in task.instances:
            by_item.setdefault(instance.doc_id, []).append(instance)
        outcomes = []
        for item, instances in sorted(by_item.items()):
            results = [instance.filtered_resps[answer_filter] for instance in instances]
            document = instances[0].doc
            if task.OUTPUT_TYPE == "multiple_choice":
                details = {"log_likelihoods": [value for value, _ in results], "gold": _gold(task, document)}
                if task.config.process_results is not None:
                    results = _shifted(results)
            else:
                details = {"answer": instances[0].resps[0], "extracted": results[0], "gold": _gold(task, document)}
                details |= {name: generated[item][name] for name in ("num_tokens", "finish_reason")}
            value = task.process_results(document, results)[harness_metric]
            outcomes.append(Outcome(item, metric, float(value), details))
        return outcomes


def _gold(task: ConfigurableTask, document: Mapping[str, Any]) -> Any:
    if "mc2_targets" in document and task.config.process_results is not None:
        return document["mc2_targets"]["labels"]
    return task.doc_to_text(document) if task.multiple_input else task.doc_to_target(document)


def _shifted(results: Sequence[tuple[float, bool]]) -> list[tuple[float, bool]]:
    """Log-likelihoods less their maximum: ratios of their exponentials are the same and do not underflow."""
    top = np.max([value for value, _ in results])
    return [(value - top, greedy) for value, greedy in results]
