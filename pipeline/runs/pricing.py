"""What the stages of a DAG cost under given parameters: ``pipeline.runs.cost`` applied to ``params.yaml``."""

import statistics
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from pipeline.config.evaluation import GenerateConfig, PackedBaselineConfig
from pipeline.config.params import ModelConfig, Params
from pipeline.core.prompts.multiple_choice import MCQ_PROMPT
from pipeline.core.prompts.open_ended import open_prompts
from pipeline.core.prompts.structured import build_split
from pipeline.dag.graph import StageNode
from pipeline.runs import cost
from pipeline.runs.cost import Cost

NOVELTY_SPLIT_SIZES = {"curated": 100, "wildchat": 1000}
"""Prompts of NoveltyBench's public splits."""
NOVELTY_PROMPT_TOKENS = 60
CLASSIFIER_PARAMETERS = 435_000_000
"""Of DeBERTa-v3-large."""
REWARD_PARAMETERS = 27_200_000_000
"""Of Skywork-Reward-Gemma-2-27B."""
PAIRS_PER_RESPONSE = 3.0
"""Representatives that a response is compared with on average."""
PREFLIGHT_SAMPLES = 4000
"""One-token samples behind the check of the sampled law."""
TOKENS_PER_DOCUMENT = 500
"""Of a PALOMA document, where their number is limited."""
BOUNDS_SHARE = 0.1
"""Share of evaluate.bounds_max_positions that the bounds of the exact law need on average."""


def _mean_tokens(texts: Sequence[str]) -> float:
    return cost.TEMPLATE_TOKENS + (statistics.fmean(map(cost.estimate_tokens, texts)) if texts else 0.0)


class Prices:
    """Costs of stages under one set of parameters; a stage that loads no model costs no GPU time."""

    def __init__(self, params: Params, project: Path = Path()):
        """``project`` is where relative paths of local data start."""
        self._params, self._project = params, project

    @cached_property
    def _train_texts(self) -> list[str]:
        prompts = self._params.prompts
        split = build_split(
            "train",
            families=prompts.families,
            prompts_per_family=prompts.train_prompts_per_family,
            seed=self._params.seed,
        )
        return [prompt.text for prompt in split]

    @cached_property
    def _test_texts(self) -> list[str]:
        prompts = self._params.prompts
        unseen = build_split("unseen", selection=prompts.unseen_selection, families=prompts.families)
        ood = build_split("ood", selection=prompts.ood_selection, families=prompts.families)
        return [prompt.text for prompt in (*unseen, *ood)]

    @cached_property
    def _axis_texts(self) -> dict[str, tuple[int, float]]:
        """Number of prompts and their mean tokens, by axis."""
        novelty = self._params.prompts.novelty
        limit = novelty.max_prompts_per_split
        if novelty.is_local and (self._project / novelty.source).is_file():
            sizes = [len((self._project / novelty.source).read_text().splitlines())]
        else:
            sizes = [NOVELTY_SPLIT_SIZES.get(split, 1000) for split in novelty.splits]
        count = sum(sizes) if limit is None else min(sum(sizes), limit * len(novelty.splits))
        open_texts = [prompt.text for prompt in open_prompts()]
        return {
            "structured": (len(self._test_texts), _mean_tokens(self._test_texts)),
            "open": (len(open_texts), _mean_tokens(open_texts)),
            "mcq": (1, _mean_tokens([MCQ_PROMPT])),
            "novelty": (count, float(NOVELTY_PROMPT_TOKENS)),
        }

    def of(self, stage: StageNode) -> Cost:
        """The cost of one stage."""
        if stage.kind in ("discretize", "discretize_eval", "build_tries"):
            return self._spaces(stage)
        model, condition = self._pair(stage.item)
        if model is None:
            return Cost()
        by_kind: dict[str, Callable[[ModelConfig], Cost]] = {
            "preflight": self._preflight,
            "exact_structured": self._exact,
            "score_structured": self._path_scores,
            "score_open": self._first_steps,
            "score_retention": self._retention,
            "score_paloma": self._paloma,
            "partition_novelty": self._partition,
            "reward_novelty": self._reward,
        }
        if stage.kind in by_kind:
            return by_kind[stage.kind](model)
        prefix, _, rest = stage.kind.partition("_")
        if prefix == "train":
            return self._training(model, rest)
        if prefix == "generate":
            return self._generation(model, rest.removesuffix("_baseline"), condition)
        return Cost()

    def _pair(self, item: str) -> tuple[ModelConfig | None, str]:
        """Model and condition that a stage's item names."""
        models = self._params.models
        if item in models:
            return models[item], ""
        name, _, condition = item.rpartition("-")
        return models.get(name), condition

    def _spaces(self, stage: StageNode) -> Cost:
        space = "eval" if stage.kind == "discretize_eval" else stage.item.rpartition("-")[2]
        max_bins = getattr(self._params.discretize, space).max_bins
        prompts = len(self._test_texts if space == "eval" else self._train_texts)
        size = cost.BYTES_PER_STRING_IN_TRIE if stage.kind == "build_tries" else cost.BYTES_PER_STRING_IN_SPACE
        return Cost(disk_bytes=prompts * (max_bins or 0) * size)

    def _training(self, model: ModelConfig, method: str) -> Cost:
        train = self._params.train
        packed = train.hard.completions_per_prompt
        settings, samples = (train.hard, train.hard.samples_per_prompt) if method == "hard" else (train.soft, None)
        if samples is None:
            # Each example of the soft method is one prompt with its paths; the whole trie counts as if it were 16.
            packed = {"path": 1, "paths": train.soft.paths_per_prompt, "exact": 16}[train.soft.estimator]
            samples = train.soft.samples_per_prompt * packed
        return cost.training_cost(
            num_parameters=model.num_parameters,
            prompt_tokens=_mean_tokens(self._train_texts),
            prompts=len(self._train_texts),
            epochs=settings.epochs,
            samples_per_prompt=samples,
            completions_per_example=packed,
            global_batch_size=train.global_batch_size,
            rank=train.lora_rank,
            num_modules=len(model.lora_target_modules),
        )

    def _generation(self, model: ModelConfig, axis: str, condition: str) -> Cost:
        baseline = getattr(self._params.generate, condition, None)
        settings: GenerateConfig = baseline or getattr(self._params.generate, axis)
        prompts, prompt_tokens = self._axis_texts[axis]
        typical = cost.TYPICAL_COMPLETION_TOKENS.get(condition, cost.TYPICAL_COMPLETION_TOKENS[axis])
        if baseline is not None and condition != "constrained":
            prompt_tokens += cost.PROTOCOL_TOKENS
        if isinstance(settings, PackedBaselineConfig):
            each = cost.TOKENS_PER_VERBALIZED_ANSWER if condition == "verbalized" else typical
            typical = settings.answers_per_request * each
        return cost.sampling_cost(
            num_parameters=model.num_parameters,
            prompt_tokens=prompt_tokens,
            prompts=prompts,
            samples=settings.num_samples,
            completion_tokens=min(typical, settings.max_new_tokens),
            sequences_at_once=cost.SEQUENCES_AT_ONCE.get(condition, cost.SEQUENCES_AT_ONCE[axis]),
        )

    def _preflight(self, model: ModelConfig) -> Cost:
        tokens = _mean_tokens(self._test_texts[:1])
        return cost.sampling_cost(
            num_parameters=model.num_parameters,
            prompt_tokens=tokens,
            prompts=1,
            samples=PREFLIGHT_SAMPLES,
            completion_tokens=1,
            sequences_at_once=cost.SEQUENCES_AT_ONCE["structured"],
        )

    def _path_scores(self, model: ModelConfig) -> Cost:
        prompts, prompt_tokens = self._axis_texts["structured"]
        path = prompt_tokens + cost.TYPICAL_COMPLETION_TOKENS["structured"]
        # Against the evaluation grid, and against every decimal.
        tokens = 2 * prompts * self._params.evaluate.paths_per_prompt * path
        return cost.scoring_cost(num_parameters=model.num_parameters, tokens=tokens)

    def _exact(self, model: ModelConfig) -> Cost:
        positions = BOUNDS_SHARE * self._params.evaluate.bounds_max_positions
        largest = self._params.discretize.eval.max_bins
        whole = self._params.evaluate.exact_max_prefixes
        # A trie has about two prefixes for each of its strings.
        positions += 2 * largest if whole is None or 2 * largest <= whole else 0
        return cost.scoring_cost(num_parameters=model.num_parameters, tokens=len(self._test_texts) * positions)

    def _first_steps(self, model: ModelConfig) -> Cost:
        prompts, prompt_tokens = self._axis_texts["open"]
        return cost.scoring_cost(num_parameters=model.num_parameters, tokens=prompts * prompt_tokens)

    def _retention(self, model: ModelConfig) -> Cost:
        retention = self._params.retention
        items = 100
        tokens = items * sum(cost.TINY_TASK_TOKENS[task] for task in retention.tasks)
        scored = cost.scoring_cost(
            num_parameters=model.num_parameters, tokens=tokens, utilisation=cost.RETENTION_UTILISATION
        )
        if "tinyGSM8k" not in retention.tasks:
            return scored
        written = items * min(cost.TYPICAL_COMPLETION_TOKENS["gsm8k"], retention.max_new_tokens)
        hours = cost.decoding_hours(written, model.num_parameters, cost.SEQUENCES_AT_ONCE["mcq"])
        return scored + Cost(completion_tokens=written, gpu_hours=hours)

    def _paloma(self, model: ModelConfig) -> Cost:
        paloma = self._params.paloma
        tokens = 0.0
        for name in paloma.slices:
            files = list((self._project / paloma.source / name).rglob("*.jsonl.gz")) if paloma.is_local else []
            # Compressed English is about one token for each byte and a half.
            whole = sum(file.stat().st_size for file in files) / 1.5 if paloma.is_local else cost.TOKENS_PER_SLICE
            limit = paloma.max_documents_per_slice
            tokens += whole if limit is None else min(whole, limit * TOKENS_PER_DOCUMENT)
        read = tokens * len(paloma.bos) * paloma.window / paloma.stride
        return cost.scoring_cost(num_parameters=model.num_parameters, tokens=read, utilisation=cost.PALOMA_UTILISATION)

    def _responses(self) -> tuple[int, float]:
        """Responses of a condition on NoveltyBench, and their mean tokens."""
        settings = self._params.generate.novelty
        tokens = min(cost.TYPICAL_COMPLETION_TOKENS["novelty"], settings.max_new_tokens)
        return self._axis_texts["novelty"][0] * settings.num_samples, tokens

    def _partition(self, model: ModelConfig) -> Cost:
        classifier = self._params.evaluate.novelty.classifier
        if classifier.kind != "deberta":
            return Cost()
        responses, tokens = self._responses()
        read = responses * PAIRS_PER_RESPONSE * 2 * min(tokens, classifier.max_tokens)
        return cost.scoring_cost(num_parameters=CLASSIFIER_PARAMETERS, tokens=read)

    def _reward(self, model: ModelConfig) -> Cost:
        responses, tokens = self._responses()
        size = REWARD_PARAMETERS if self._params.evaluate.novelty.reward.kind == "skywork" else model.num_parameters
        read = responses * (NOVELTY_PROMPT_TOKENS + tokens)
        return cost.scoring_cost(num_parameters=size, tokens=read)
