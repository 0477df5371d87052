"""What the stages of a DAG cost under given parameters: requests times tokens, times what a token costs."""

import functools
import math
import statistics
from pathlib import Path

from pipeline.config.conditions import answer_styles, decoding_settings, generation_settings, training_settings
from pipeline.config.evaluation import SAMPLED_AS
from pipeline.config.params import Params
from pipeline.config.retention import is_local_path
from pipeline.config.training import target_shares
from pipeline.core.prompts.multiple_choice import MCQ_PROMPT
from pipeline.core.prompts.structured import Prompt, build_split
from pipeline.core.retention.tasks import GENERATIVE_TASKS, TASKS
from pipeline.estimates import cost
from pipeline.estimates.cost import Cost
from pipeline.sources.prompt_sets import read_open_prompts

REPLY_TOKENS = {"structured": 9, "laws": 9, "open": 4, "questions": 5, "perturbations": 5, "selfreflect": 60}
REPLY_TOKENS |= {"mcq": 130, "gsm8k": 130, "novelty": 220, "ssot": 600}
"""Tokens of a reply, terminator included, by axis or baseline, where its limit allows; 100 of others."""
NUMBERS_AT_ONCE, TEXTS_AT_ONCE = 39.0, 4.0
"""Sequences that a decoding step of the paper's code advances on average, by what it samples."""
TEMPLATE_TOKENS, PROTOCOL_TOKENS, PROMPT_TOKENS = 14, 180, 60
"""Of a chat template; of a baseline's instruction or the answers beside a question; of a prompt in a data set."""
DATA_SET_PROMPTS = {"curated": 100, "wildchat": 1000, "instructions": 400, "questions": 100}
"""Prompts of a data set that has no limit in the parameters."""
TASK_TOKENS = {"tinyMMLU": 800, "tinyHellaswag": 4600, "tinyTruthfulQA": 2600}
TASK_TOKENS |= {"tinyWinogrande": 320, "tinyGSM8k": 900, "gsm8k": 900}
"""Tokens read per item, few-shot examples and all of its choices included."""
SLICE_TOKENS, DOCUMENT_TOKENS = 700_000, 500  # of a PALOMA test slice and document
CLASSIFIER_PARAMETERS, REWARD_PARAMETERS = 435_000_000, 27_200_000_000
"""Of DeBERTa-v3-large and Skywork-Reward-Gemma-2-27B."""


class Prices:
    """Costs of stages under one set of parameters; a stage that loads no model costs no GPU time."""

    def __init__(self, params: Params, project: Path = Path()):
        """``project`` is where relative paths of local data start."""
        self._params, self._project = params, project
        self._prompts = functools.cache(self._count_prompts)

    @functools.cached_property
    def _own_prompts(self) -> tuple[list[Prompt], list[Prompt]]:
        # Not before: who only composes need not wait for SciPy.
        from pipeline.sources.own_laws import own_prompts

        return own_prompts(self._params.laws, self._project)

    def texts(self, asked: str) -> list[str]:
        """Requests that are known: ours, and those of files."""
        wanted, families = self._params.prompts, self._params.prompts.families
        trained, tested = self._own_prompts
        if asked == "mcq":
            return [MCQ_PROMPT]
        if asked == "open":
            source = wanted.open.source
            tested = read_open_prompts(source and str(self._project / source))
        elif asked == "structured":
            tested = build_split("unseen", selection=wanted.unseen_selection, families=families)
            tested = [*tested, *build_split("ood", selection=wanted.ood_selection, families=families)]
        elif asked == "train":
            number, fresh = wanted.train_prompts_per_family, wanted.train_parameters == "fresh"
            drawn = {"prompts_per_family": number, "fresh": fresh, "seed": self._params.seed}
            tested = [*build_split("train", families=families, **drawn), *trained]
        return [prompt.text for prompt in tested]

    def _count_prompts(self, asked: str) -> tuple[float, float]:
        """Number of prompts of an axis, or of what else is asked, and their mean tokens."""
        prompts = self._params.prompts
        if asked in ("train", "structured", "open", "mcq", "laws"):
            sizes = [cost.estimate_tokens(text) for text in self.texts(asked)]
            return len(sizes), TEMPLATE_TOKENS + (statistics.fmean(sizes) if sizes else 0.0)
        if asked == "novelty":
            sizes = [DATA_SET_PROMPTS.get(split, 1000) for split in prompts.novelty.splits]
            return sum(min(size, prompts.novelty.max_prompts_per_split or size) for size in sizes), PROMPT_TOKENS
        if asked in ("instructions", "anchors"):
            share = prompts.instructions.held_out_share
            count = prompts.instructions.max_prompts or DATA_SET_PROMPTS["instructions"]
            return count * (share if asked == "anchors" else 1 - share), PROMPT_TOKENS
        if asked == "perturbations":
            questions, wanted = self._prompts("questions")[0], prompts.perturbations
            return min(questions, wanted.max_questions or questions) * (wanted.number + 1), PROMPT_TOKENS
        if asked == "selfreflect":
            # Every question with the list of its answers, and without it.
            return 2 * self._prompts("questions")[0], PROMPT_TOKENS + PROTOCOL_TOKENS
        if asked == "questions":
            return prompts.questions.max_prompts or DATA_SET_PROMPTS["questions"], PROMPT_TOKENS
        return self._prompts(SAMPLED_AS[asked])

    def _reply(self, axis: str, limit: float | None = None) -> float:
        """Tokens of a reply on an axis, or under a baseline, within its limit."""
        limit = getattr(self._params.generate, axis).max_new_tokens if limit is None else limit
        return min(REPLY_TOKENS.get(axis, 100), limit)

    def _read(self, model: str | int, tokens: float) -> Cost:
        """Loading a model, by its name or number of weights, and reading tokens for their log-probabilities."""
        size = model if isinstance(model, int) else self._params.models[model].num_parameters
        loading = (cost.LOADING_SECONDS + 2 * size / cost.LOADING_BYTES) / 3600  # a stage's start and bfloat16 weights
        return Cost(tokens, 0.0, loading + cost.work_hours(size, reading_tokens=tokens))

    def _decode(self, model: str, tokens: float, what: str) -> Cost:
        rows = NUMBERS_AT_ONCE if what in ("structured", "laws", "ssot") else TEXTS_AT_ONCE
        size = self._params.models[model].num_parameters
        return Cost(0.0, tokens, cost.work_hours(size, decoding_steps=tokens / rows))

    def _answers(self, model: str | int, axis: str, passes: float = 1) -> Cost:
        """Reading every sampled answer of an axis behind its request, ``passes`` times."""
        prompts, tokens = self._prompts(axis)
        answers = prompts * getattr(self._params.generate, axis).num_samples
        return self._read(model, passes * answers * (tokens + self._reply(axis)))

    def _packed(self, method: str, target: str) -> tuple[int, int, int]:
        """Epochs, examples per prompt and epoch, and strings per example of a target."""
        train = training_settings(self._params, method)
        if target == "hard":
            packed = train.hard.completions_per_prompt
            return train.hard.epochs, train.hard.samples_per_prompt // packed, packed
        return train.soft.epochs, train.soft.samples_per_prompt, train.soft.paths_per_prompt

    def training(self, model: str, method: str) -> Cost:
        """An adapter: of two targets each takes its share of the steps; anchors come on top of them."""
        made, train = self._params.methods[method], training_settings(self._params, method)
        (prompts, prompt_tokens), total, steps = self._prompts("train"), Cost(), 0.0
        for target, share in target_shares(made).items():
            epochs, examples, packed = self._packed(method, target)
            steps += share * cost.training_steps_of(prompts, examples, epochs, train.global_batch_size)
            examples *= share * epochs * prompts
            total += Cost(examples * prompt_tokens, examples * packed * REPLY_TOKENS["structured"])
        tokens = total.prompt_tokens + total.completion_tokens
        if made.anchors is not None:
            sequences = made.anchors.sequences_per_step * steps
            anchors = Cost(sequences * PROMPT_TOKENS, sequences * self._reply("instructions"))
            total += anchors
            # The base checkpoint's law takes one more forward pass.
            tokens += 1.5 * (anchors.prompt_tokens + anchors.completion_tokens)
        size = self._params.models[model].num_parameters
        return total + Cost(gpu_hours=cost.work_hours(size, training_steps=steps, training_tokens=tokens))

    def training_memory(self, model: str) -> float:
        """Bytes that the largest pass of any method takes on a GPU that trains by itself."""
        config, most = self._params.models[model], 0.0
        for method, made in self._params.methods.items():
            train = training_settings(self._params, method)
            strings = max(self._packed(method, target)[-1] for target in target_shares(made))
            anchor = 0 if made.anchors is None else PROMPT_TOKENS + self._reply("instructions")
            width = max(self._prompts("train")[1] + strings * REPLY_TOKENS["structured"], anchor)
            tokens = min(train.micro_batch_size * width, train.tokens_per_pass or math.inf)
            modules = len(config.lora_target_modules)
            most = max(most, cost.training_memory_bytes(config.num_parameters, tokens, train.lora_rank, modules))
        return most

    def generation(self, model: str, axis: str, condition: str) -> Cost:
        """Answers of a condition on an axis; the prompt is read once for all samples of it."""
        settings = generation_settings(self._params, axis, condition)
        axis = SAMPLED_AS.get(axis, axis)
        (prompts, prompt_tokens), what = self._prompts(axis), condition if condition in REPLY_TOKENS else axis
        if getattr(self._params.generate, condition, None) is not None and condition != "constrained":
            prompt_tokens += PROTOCOL_TOKENS
        limit = settings.max_new_tokens
        reply = self._reply(what, limit)
        # Replies in a style are taken to be as long as they may be.
        styles = [style.max_new_tokens for style in answer_styles(settings).values()]
        plain = (1 + len(decoding_settings(settings))) * reply
        written = prompts * settings.num_samples * (plain + sum(styles))
        read = self._read(model, prompts * (1 + len(styles)) * prompt_tokens)
        return read + self._decode(model, written, what)

    def preflight(self, model: str) -> Cost:
        """100 passes over a request, and 8,000 samples of one token."""
        return self._read(model, 100 * self._prompts("structured")[1]) + self._decode(model, 8_000, "structured")

    def structured_scores(self, model: str) -> Cost:
        """Divergences along paths of two targets, and bounds over plain decimals, for a tenth of their positions."""
        (prompts, tokens), evaluate = self._prompts("structured"), self._params.evaluate
        along_paths = 2 * evaluate.paths_per_prompt * (tokens + REPLY_TOKENS["structured"])
        return self._read(model, prompts * (along_paths + 0.1 * evaluate.bounds_max_positions))

    def exact_own_laws(self, model: str) -> Cost:
        return self._read(model, self._prompts("laws")[0] * 1000)

    def first_steps(self, model: str) -> Cost:
        return self._read(model, math.prod(self._prompts("open")))

    def question_steps(self, model: str) -> Cost:
        return self._answers(model, "questions")

    def judged_words(self, model: str) -> Cost:
        judge = self._params.selfreflect.judge or self._params.models[model]
        return self._answers(judge.num_parameters, "selfreflect", 3 * self._params.selfreflect.test_answers)

    def divergences(self, model: str) -> Cost:
        """Replies of base and of the condition, each read with and without the adapter."""
        return self._answers(model, "anchors", 4)

    def retention(self, model: str) -> Cost:
        items = {task: TASKS[task].items for task in self._params.retention.tasks}
        answers = sum(count for task, count in items.items() if task in GENERATIVE_TASKS)
        written = answers * self._reply("gsm8k", self._params.retention.max_new_tokens)
        read = self._read(model, sum(count * TASK_TOKENS[task] for task, count in items.items()))
        return read + self._decode(model, written, "gsm8k")

    def paloma(self, model: str) -> Cost:
        """PALOMA; compressed English is about one token for each byte and a half."""
        paloma, tokens = self._params.paloma, 0.0
        for name in paloma.slices:
            files = (self._project / paloma.source / name).rglob("*.jsonl.gz")
            local = is_local_path(paloma.source)
            whole = sum(file.stat().st_size for file in files) / 1.5 if local else SLICE_TOKENS
            tokens += min(whole, (paloma.max_documents_per_slice or math.inf) * DOCUMENT_TOKENS)
        return self._read(model, tokens * len(paloma.bos) * paloma.window / paloma.stride)

    def partition(self, model: str) -> Cost:
        """A response is compared with three representatives on average, in both directions."""
        classifier = self._params.evaluate.novelty.classifier
        responses = self._prompts("novelty")[0] * self._params.generate.novelty.num_samples
        tokens = responses * 6 * min(self._reply("novelty"), classifier.max_tokens)
        return self._read(CLASSIFIER_PARAMETERS, tokens) if classifier.kind == "deberta" else Cost()

    def reward(self, model: str) -> Cost:
        is_skywork = self._params.evaluate.novelty.reward.kind == "skywork"
        return self._answers(REWARD_PARAMETERS if is_skywork else model, "novelty")
