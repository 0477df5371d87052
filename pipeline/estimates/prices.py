"""What the stages of a DAG cost under given parameters: ``pipeline.estimates.cost`` applied to ``params.yaml``."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pipeline.axes.questions.prompt_set import read_questions
from pipeline.config.conditions import answer_styles, decoding_settings, generation_settings, training_settings
from pipeline.config.evaluation import SAMPLED_AS
from pipeline.config.methods import target_shares
from pipeline.config.params import Params
from pipeline.config.retention import is_local_path
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.prompts.multiple_choice import MCQ_PROMPT
from pipeline.core.prompts.structured import Prompt, build_split
from pipeline.core.prompts.text import HELD_OUT
from pipeline.core.retention.tasks import GENERATIVE_TASKS, TASKS
from pipeline.estimates import cost
from pipeline.estimates.cost import Cost
from pipeline.estimates.rates import Rates
from pipeline.sources.instructions import read_instructions
from pipeline.sources.open_prompts import read_open_prompts

# Sizes of what is not on this machine, or not known before it runs; assumed where no source is given.
REPLY_TOKENS: Mapping[str, float] = {
    "structured": 9,
    "laws": 9,
    "open": 4,
    "questions": 5,
    "perturbations": 5,
    "selfreflect": 60,
    "mcq": 130,
    "gsm8k": 130,
    "novelty": 220,
    "ssot": 600,
}
"""Tokens of a reply, terminator included, by axis or baseline, where its limit allows; of others OTHER_REPLY_TOKENS."""
OTHER_REPLY_TOKENS = 100
NUMBERS_AT_ONCE, TEXTS_AT_ONCE = 39.0, 4.0
"""Sequences that a decoding step of the paper's code advances on average, by what it samples."""
NUMBERS = ("structured", "laws", "ssot")
TEMPLATE_TOKENS, PROTOCOL_TOKENS = 14, 180
"""Around a request: of a chat template; of a baseline's instruction."""
VERBALIZED_ANSWER_TOKENS = 16
"""Of one answer in a list with probabilities."""
SUMMARY_REQUEST_TOKENS = 45
"""Around question and answers in a request for their summary, and for a hidden word."""
HUB_PROMPTS = {"curated": 100, "wildchat": 1000, "instructions": 400, "questions": 100}
"""Prompts of a data set of the hub: NoveltyBench's public splits, and what has no limit in the parameters."""
HUB_PROMPT_TOKENS = 60
TASK_TOKENS: Mapping[str, int] = {
    "tinyMMLU": 800,
    "tinyHellaswag": 4600,
    "tinyTruthfulQA": 2600,
    "tinyWinogrande": 320,
    "tinyGSM8k": 900,
    "gsm8k": 900,
}
"""Tokens read per item, few-shot examples and all of its choices included."""
SLICE_TOKENS, DOCUMENT_TOKENS = 700_000, 500
"""Of a PALOMA test slice and document."""
CLASSIFIER_PARAMETERS, REWARD_PARAMETERS = 435_000_000, 27_200_000_000
"""Of DeBERTa-v3-large and Skywork-Reward-Gemma-2-27B."""
PAIRS_PER_RESPONSE = 3
"""Representatives that a response is compared with on average."""
PREFLIGHT_READS, PREFLIGHT_SAMPLES, PREFLIGHT_ROWS = 600, 16_000, 256
"""Passes over a request, samples of one or two tokens, and how many of them at once."""
BOUNDS_SHARE = 0.1
"""Share of evaluate.bounds_max_positions that the bounds of the exact law need on average."""
STRING_BYTES, TRIE_STRING_BYTES = 20, 75
"""Of a string in an output space, and in a trie. Measured: tries of 1,988 prompts take 165 MB at 1,001 strings and
2.1 GB at 16,384."""
TOKEN_BYTES, GENERATION_BYTES = 3, 12
"""Of the text of a generation in a compressed table, and of what lies beside it."""


class Prices:
    """Costs of stages under one set of parameters; a stage that loads no model costs no GPU time."""

    def __init__(self, params: Params, project: Path = Path(), rates: Rates | None = None):
        """``project`` is where relative paths of local data start; ``rates`` replace those of the paper's code."""
        self._params, self._project, self._rates = params, project, rates
        self._known: dict[str, tuple[int, float]] = {}

    @cached_property
    def _own_prompts(self) -> tuple[list[Prompt], list[Prompt]]:
        from pipeline.sources.own_laws import own_prompts

        return own_prompts(self._params.laws, self._project)

    @cached_property
    def _train_texts(self) -> list[str]:
        prompts = self._params.prompts
        split = build_split(
            "train",
            families=prompts.families,
            prompts_per_family=prompts.train_prompts_per_family,
            seed=self._params.seed,
        )
        return [prompt.text for prompt in (*split, *self._own_prompts[0])]

    def _local(self, source: str) -> Path | None:
        place = self._project / source
        return place if is_local_path(source) and place.is_file() else None

    def _prompts(self, axis: str) -> tuple[int, float]:
        """Number of an axis's prompts and their mean tokens."""
        if axis not in self._known:
            counted = self._count(axis)
            if isinstance(counted, int):
                self._known[axis] = counted, float(HUB_PROMPT_TOKENS)
            elif isinstance(counted, list):
                self._known[axis] = len(counted), _mean_tokens(counted)
            else:
                self._known[axis] = counted
        return self._known[axis]

    def _count(self, axis: str) -> list[str] | int | tuple[int, float]:
        """The texts of an axis's prompts, or their number, or number and mean tokens."""
        prompts, seed = self._params.prompts, self._params.seed
        match axis:
            case "train":
                return self._train_texts
            case "structured":
                unseen = build_split("unseen", selection=prompts.unseen_selection, families=prompts.families)
                ood = build_split("ood", selection=prompts.ood_selection, families=prompts.families)
                return [prompt.text for prompt in (*unseen, *ood)]
            case "open":
                source = prompts.open.source
                return [prompt.text for prompt in read_open_prompts(source and str(self._project / source))]
            case "mcq":
                return [MCQ_PROMPT]
            case "laws":
                return [prompt.text for prompt in self._own_prompts[1]]
            case "novelty":
                place, limit = self._local(prompts.novelty.source), prompts.novelty.max_prompts_per_split
                lines = [len(place.read_text().splitlines())] if place else []
                count = sum(lines or (HUB_PROMPTS.get(split, 1000) for split in prompts.novelty.splits))
                return count if limit is None else min(count, limit * len(prompts.novelty.splits))
            case "instructions" | "anchors":
                # Those held out are what the axis "anchors" asks.
                wanted, held_out = prompts.instructions, axis == "anchors"
                if place := self._local(wanted.source):
                    found = read_instructions(replace(wanted, source=str(place)), None, seed)
                    return [prompt.text for prompt in found if (prompt.split == HELD_OUT) == held_out]
                count = wanted.max_prompts or HUB_PROMPTS["instructions"]
                share = round(wanted.held_out_share * count)
                return share if held_out else count - share
            case "questions":
                wanted = prompts.questions
                if wanted is None:
                    return 0
                if place := self._local(wanted.source):
                    return [question.text for question in read_questions(replace(wanted, source=str(place)), None)]
                return wanted.max_prompts or HUB_PROMPTS["questions"]
            case "perturbations":
                wanted, (count, tokens) = prompts.perturbations, self._prompts("questions")
                if wanted is None:
                    return 0
                asked = count if wanted.max_questions is None else min(count, wanted.max_questions)
                return asked * (wanted.number + 1), tokens
            case "selfreflect":
                # Of every question with its answers, and without them.
                questions, tokens = self._prompts("questions")
                return 2 * questions, tokens + SUMMARY_REQUEST_TOKENS + self._listed_tokens() / 2
        return self._prompts(SAMPLED_AS[axis])

    def _reply(self, axis: str, limit: int | None = None) -> float:
        """Tokens of a reply on an axis, or under a baseline, within its limit."""
        if limit is None:
            limit = getattr(self._params.generate, axis).max_new_tokens
        return min(REPLY_TOKENS.get(axis, OTHER_REPLY_TOKENS), limit)

    def _listed_tokens(self) -> float:
        """Tokens of the list of a question's answers."""
        drawn, summarised = self._params.generate.questions, self._params.selfreflect
        if drawn is None or summarised is None:
            return 0.0
        return (drawn.num_samples - summarised.test_answers) * self._reply("questions")

    def _size(self, model: str) -> int:
        return self._params.models[model].num_parameters

    def _read(self, num_parameters: int, tokens: float) -> Cost:
        """Loading a model and reading ``tokens`` for their log-probabilities."""
        hours = cost.work_hours(num_parameters, self._rates, reading_token=tokens)
        return Cost(tokens, 0.0, cost.loading_hours(num_parameters) + hours)

    def _decode(self, num_parameters: int, tokens: float, what: str, rows: float) -> Cost:
        """Generating ``tokens``, ``rows`` at once on a device with rates."""
        if self._rates is None:
            rows = NUMBERS_AT_ONCE if what in NUMBERS else TEXTS_AT_ONCE
        else:
            rows = min(rows, self._rates.decoding_rows)
        return Cost(0.0, tokens, cost.work_hours(num_parameters, self._rates, decoding_step=tokens / rows))

    def spaces(self, space: str) -> Cost:
        """Output spaces of all prompts."""
        prompts, _ = self._prompts("structured" if space == "eval" else "train")
        return Cost(disk_bytes=prompts * (getattr(self._params.discretize, space).max_bins or 0) * STRING_BYTES)

    def tries(self, space: str) -> Cost:
        """Tries of those output spaces."""
        return Cost(disk_bytes=self.spaces(space).disk_bytes / STRING_BYTES * TRIE_STRING_BYTES)

    def _packed(self, method: str, target: str) -> tuple[int, int, int]:
        """Epochs, examples per prompt and epoch, and strings per example of a target."""
        train = training_settings(self._params, method)
        if target == "hard":
            packed = train.hard.completions_per_prompt
            return train.hard.epochs, train.hard.samples_per_prompt // packed, packed
        # Each example of the soft target is one prompt with its paths; the whole trie counts as if it were 16.
        packed = {"path": 1, "paths": train.soft.paths_per_prompt, "exact": 16}[train.soft.estimator]
        return train.soft.epochs, train.soft.samples_per_prompt, packed

    def training(self, model: str, method: str) -> Cost:
        """An adapter: of two targets each takes its share of the steps; anchors come on top of them."""
        made, size = self._params.methods[method], self._size(model)
        train, modules = training_settings(self._params, method), self._params.models[model].lora_target_modules
        prompts, prompt_tokens = self._prompts("train")
        total, steps = Cost(disk_bytes=cost.adapter_bytes(size, train.lora_rank, len(modules))), 0.0
        for target, share in target_shares(made).items():
            epochs, examples, packed = self._packed(method, target)
            steps += share * cost.training_steps_of(prompts, examples, epochs, train.global_batch_size)
            examples *= share * epochs * prompts
            total += Cost(examples * prompt_tokens, examples * packed * REPLY_TOKENS["structured"])
        tokens = total.prompt_tokens + total.completion_tokens
        if made.anchors is not None:
            sequences = made.anchors.sequences_per_step * steps
            read, written = sequences * self._prompts("instructions")[1], sequences * self._reply("instructions")
            total += Cost(read, written)
            # The base checkpoint's law takes one more forward pass.
            tokens += (1.0 if made.anchors.divergence == "replay" else 1.5) * (read + written)
        hours = cost.work_hours(size, self._rates, training_step=steps, training_token=tokens)
        return total + Cost(gpu_hours=hours)

    def training_memory(self, model: str) -> float:
        """Bytes that the largest pass of any method takes on a GPU that trains by itself."""
        config, most = self._params.models[model], 0.0
        # A pass is as wide as its longest row.
        longest = TEMPLATE_TOKENS + max(map(cost.estimate_tokens, self._train_texts), default=0)
        for method, made in self._params.methods.items():
            train = training_settings(self._params, method)
            packed = [self._packed(method, target)[-1] for target in target_shares(made)]
            rows = [longest + strings * REPLY_TOKENS["structured"] for strings in packed]
            if made.anchors is not None:
                rows.append(self._prompts("instructions")[1] + self._reply("instructions"))
            tokens = min(train.micro_batch_size * max(rows, default=0.0), train.tokens_per_pass or math.inf)
            modules = len(config.lora_target_modules)
            most = max(most, cost.training_memory_bytes(config.num_parameters, tokens, train.lora_rank, modules))
        return most

    def generation(self, model: str, axis: str, condition: str) -> Cost:
        """Answers of a condition on an axis; the prompt is read once for all samples of it."""
        settings = generation_settings(self._params, axis, condition)
        baseline = getattr(self._params.generate, condition, None)
        axis = SAMPLED_AS.get(axis, axis)
        (prompts, prompt_tokens), what = self._prompts(axis), condition if condition in REPLY_TOKENS else axis
        if baseline is not None and condition != "constrained":
            prompt_tokens += PROTOCOL_TOKENS
        reply = self._reply(what, settings.max_new_tokens)
        if settings.answers_per_request > 1:
            each = VERBALIZED_ANSWER_TOKENS if condition == "verbalized" else reply
            reply = min(settings.answers_per_request * each, settings.max_new_tokens)
        # Replies in a style are taken to be as long as they may be.
        styles = [style.max_new_tokens for style in answer_styles(settings).values()]
        replies = prompts * settings.num_samples * (1 + len(decoding_settings(settings)) + len(styles))
        written = prompts * settings.num_samples * ((1 + len(decoding_settings(settings))) * reply + sum(styles))
        rows = min(settings.batch_size, prompts * settings.num_samples) or 1
        size, disk = self._size(model), written * TOKEN_BYTES + replies * GENERATION_BYTES
        read = self._read(size, prompts * (1 + len(styles)) * prompt_tokens)
        return read + self._decode(size, written, what, rows) + Cost(disk_bytes=disk)

    def preflight(self, model: str) -> Cost:
        """The checks of a model."""
        size, (_, tokens) = self._size(model), self._prompts("structured")
        written = self._decode(size, 1.5 * PREFLIGHT_SAMPLES, "structured", PREFLIGHT_ROWS)
        return self._read(size, tokens * PREFLIGHT_READS) + written

    def path_scores(self, model: str) -> Cost:
        """Divergences along paths, against the evaluation grid and against every decimal."""
        prompts, tokens = self._prompts("structured")
        paths = 2 * prompts * self._params.evaluate.paths_per_prompt
        return self._read(self._size(model), paths * (tokens + REPLY_TOKENS["structured"]))

    def exact_law(self, model: str) -> Cost:
        """Bounds, and figures over whole tries, which have about two prefixes for each of their strings."""
        evaluate, prefixes = self._params.evaluate, 2 * self._params.discretize.eval.max_bins
        positions = BOUNDS_SHARE * evaluate.bounds_max_positions
        if evaluate.exact_max_prefixes is None or prefixes <= evaluate.exact_max_prefixes:
            positions += prefixes
        return self._read(self._size(model), self._prompts("structured")[0] * positions)

    def exact_own_laws(self, model: str) -> Cost:
        """Whole tries of finite laws."""
        laws = (prompt.law for prompt in self._own_prompts[1])
        strings = sum(len(law.strings) for law in laws if isinstance(law, FiniteLaw))
        return self._read(self._size(model), 2.0 * strings)

    def first_steps(self, model: str) -> Cost:
        """Laws of first tokens."""
        return self._read(self._size(model), math.prod(self._prompts("open")))

    def question_steps(self, model: str) -> Cost:
        """The same of questions, and of all tokens of the default setting's answers."""
        questions, tokens = self._prompts("questions")
        answers = self._params.generate.questions.num_samples * (tokens + self._reply("questions"))
        return self._read(self._size(model), questions * (tokens + answers))

    def judged_words(self, model: str) -> Cost:
        """Hidden words of the tested answers (1.5 each), behind the list and behind each summary."""
        settings, (questions, tokens) = self._params.selfreflect, self._prompts("questions")
        written = 3 * self._params.generate.selfreflect.num_samples
        contexts = 2 * self._listed_tokens() + written * self._reply("selfreflect")
        words = 1.5 * questions * settings.test_answers
        judge = settings.judge or self._params.models[model]
        return self._read(judge.num_parameters, words * ((2 + written) * (tokens + SUMMARY_REQUEST_TOKENS) + contexts))

    def retention(self, model: str) -> Cost:
        """The tasks of what is kept."""
        retention, size = self._params.retention, self._size(model)
        items = {task: TASKS[task].items for task in retention.tasks}
        read = self._read(size, sum(count * TASK_TOKENS[task] for task, count in items.items()))
        answers = sum(count for task, count in items.items() if task in GENERATIVE_TASKS)
        rows = max(retention.tokens_per_pass // TASK_TOKENS["gsm8k"], 1)
        return read + self._decode(size, answers * self._reply("gsm8k", retention.max_new_tokens), "gsm8k", rows)

    def paloma(self, model: str) -> Cost:
        """PALOMA; compressed English is about one token for each byte and a half."""
        paloma, tokens = self._params.paloma, 0.0
        for name in paloma.slices:
            whole = float(SLICE_TOKENS)
            if is_local_path(paloma.source):
                files = (self._project / paloma.source / name).rglob("*.jsonl.gz")
                whole = sum(file.stat().st_size for file in files) / 1.5
            tokens += min(whole, (paloma.max_documents_per_slice or math.inf) * DOCUMENT_TOKENS)
        return self._read(self._size(model), tokens * len(paloma.bos) * paloma.window / paloma.stride)

    def divergences(self, model: str) -> Cost:
        """Replies of base and of the condition, each read with and without the adapter."""
        prompts, tokens = self._prompts("anchors")
        replies = 4 * prompts * self._params.generate.anchors.num_samples
        return self._read(self._size(model), replies * (tokens + self._reply("anchors")))

    def partition(self, model: str) -> Cost:
        """Classes of a condition's NoveltyBench responses."""
        classifier = self._params.evaluate.novelty.classifier
        if classifier.kind != "deberta":
            return Cost()
        responses = self._prompts("novelty")[0] * self._params.generate.novelty.num_samples
        pair = 2 * min(self._reply("novelty"), classifier.max_tokens)
        return self._read(CLASSIFIER_PARAMETERS, responses * PAIRS_PER_RESPONSE * pair)

    def reward(self, model: str) -> Cost:
        """Their rewards."""
        prompts, tokens = self._prompts("novelty")
        responses = prompts * self._params.generate.novelty.num_samples
        skywork = self._params.evaluate.novelty.reward.kind == "skywork"
        size = REWARD_PARAMETERS if skywork else self._size(model)
        return self._read(size, responses * (tokens + self._reply("novelty")))


def _mean_tokens(texts: list[str]) -> float:
    return TEMPLATE_TOKENS + (statistics.fmean(map(cost.estimate_tokens, texts)) if texts else 0.0)
