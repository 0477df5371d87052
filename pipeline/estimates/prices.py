"""What the stages of a DAG cost under given parameters: ``pipeline.estimates.cost`` applied to ``params.yaml``."""

import functools
import math
import statistics
from pathlib import Path

from pipeline.config.conditions import answer_styles, decoding_settings, generation_settings, training_settings
from pipeline.config.evaluation import SAMPLED_AS
from pipeline.config.methods import target_shares
from pipeline.config.params import Params
from pipeline.config.retention import is_local_path
from pipeline.core.prompts.multiple_choice import MCQ_PROMPT
from pipeline.core.prompts.structured import build_split
from pipeline.core.retention.tasks import GENERATIVE_TASKS, TASKS
from pipeline.estimates import cost
from pipeline.estimates.cost import Cost
from pipeline.estimates.rates import Rates
from pipeline.sources.prompt_sets import read_open_prompts

# Sizes of what is not on this machine, or not known before it runs; assumed where no source is given.
REPLY_TOKENS = {"structured": 9, "laws": 9, "open": 4, "questions": 5, "perturbations": 5, "selfreflect": 60}
REPLY_TOKENS |= {"mcq": 130, "gsm8k": 130, "novelty": 220, "ssot": 600}
"""Tokens of a reply, terminator included, by axis or baseline, where its limit allows; of others OTHER_REPLY_TOKENS."""
OTHER_REPLY_TOKENS = 100
NUMBERS_AT_ONCE, TEXTS_AT_ONCE = 39.0, 4.0
"""Sequences that a decoding step of the paper's code advances on average, by what it samples."""
NUMBERS = ("structured", "laws", "ssot")
TEMPLATE_TOKENS, PROTOCOL_TOKENS = 14, 180
"""Around a request: of a chat template; of a baseline's instruction, or of a question with answers to it."""
VERBALIZED_ANSWER_TOKENS = 16
"""Of one answer in a list with probabilities."""
HUB_PROMPTS = {"curated": 100, "wildchat": 1000, "instructions": 400, "questions": 100}
"""Prompts of a data set of the hub: NoveltyBench's public splits, and what has no limit in the parameters."""
PROMPT_TOKENS = 60
"""Of a prompt in a data set."""
TASK_TOKENS = {"tinyMMLU": 800, "tinyHellaswag": 4600, "tinyTruthfulQA": 2600}
TASK_TOKENS |= {"tinyWinogrande": 320, "tinyGSM8k": 900, "gsm8k": 900}
"""Tokens read per item, few-shot examples and all of its choices included."""
SLICE_TOKENS, DOCUMENT_TOKENS = 700_000, 500
"""Of a PALOMA test slice and document."""
CLASSIFIER_PARAMETERS, REWARD_PARAMETERS = 435_000_000, 27_200_000_000
"""Of DeBERTa-v3-large and Skywork-Reward-Gemma-2-27B."""
PAIRS_PER_RESPONSE = 3
"""Representatives that a response is compared with on average."""
PREFLIGHT_READS, PREFLIGHT_SAMPLES, PREFLIGHT_ROWS = 100, 8_000, 256
"""Passes over a request, samples of one token, and how many of them at once."""
BOUNDS_SHARE = 0.1
"""Share of evaluate.bounds_max_positions that the bounds of the exact law need on average."""
OWN_LAW_PREFIXES = 1000
"""Of the trie of a finite law."""
STRING_BYTES, TRIE_STRING_BYTES, TOKEN_BYTES, GENERATION_BYTES = 20, 75, 3, 12
"""Of a string in an output space and in a trie; of a generated token in a compressed table, and beside each reply."""


class Prices:
    """Costs of stages under one set of parameters; a stage that loads no model costs no GPU time."""

    def __init__(self, params: Params, project: Path = Path(), rates: Rates | None = None):
        """``project`` is where relative paths of local data start; ``rates`` replace those of the paper's code."""
        self._params, self._project, self._rates = params, project, rates
        self._prompts = functools.cache(self._count_prompts)
        self._texts = functools.cache(self._read_texts)

    def _read_texts(self, asked: str) -> list[str]:
        # Not before: who only composes need not wait for SciPy.
        from pipeline.sources.own_laws import own_prompts

        prompts = self._params.prompts
        if asked == "mcq":
            return [MCQ_PROMPT]
        if asked == "open":
            source = prompts.open.source
            return [prompt.text for prompt in read_open_prompts(source and str(self._project / source))]
        trained, tested = own_prompts(self._params.laws, self._project)
        found, families = {"laws": tested, "train": trained}.get(asked, []), prompts.families
        if asked == "train":
            number, seed = prompts.train_prompts_per_family, self._params.seed
            found = [*build_split("train", families=families, prompts_per_family=number, seed=seed), *found]
        elif asked == "structured":
            found = build_split("unseen", selection=prompts.unseen_selection, families=families)
            found = [*found, *build_split("ood", selection=prompts.ood_selection, families=families)]
        return [prompt.text for prompt in found]

    def _count_prompts(self, asked: str) -> tuple[float, float]:
        """Number of prompts of an axis, or of what else is asked, and their mean tokens."""
        prompts = self._params.prompts
        match asked:
            case "train" | "structured" | "open" | "mcq" | "laws":
                sizes = [cost.estimate_tokens(text) for text in self._texts(asked)]
                return len(sizes), TEMPLATE_TOKENS + (statistics.fmean(sizes) if sizes else 0.0)
            case "novelty":
                splits, limit = prompts.novelty.splits, prompts.novelty.max_prompts_per_split or math.inf
                there = self._lines(prompts.novelty.source) or sum(HUB_PROMPTS.get(split, 1000) for split in splits)
                return min(there, limit * len(splits)), PROMPT_TOKENS
            case "instructions" | "anchors":
                # Those held out are what the axis "anchors" asks.
                share = prompts.instructions.held_out_share
                return self._limited("instructions") * (share if asked == "anchors" else 1 - share), PROMPT_TOKENS
            case "questions":
                return (self._limited("questions") if prompts.questions else 0), PROMPT_TOKENS
            case "perturbations":
                wanted, (count, tokens) = prompts.perturbations, self._prompts("questions")
                return (min(count, wanted.max_questions or count) * (wanted.number + 1) if wanted else 0), tokens
            case "selfreflect":
                # Of every question with the list of its answers, and without it.
                questions, tokens = self._prompts("questions")
                return 2 * questions, tokens + PROTOCOL_TOKENS
        return self._prompts(SAMPLED_AS[asked])

    def _lines(self, source: str) -> int:
        place = self._project / source
        return len(place.read_text().splitlines()) if is_local_path(source) and place.is_file() else 0

    def _limited(self, section: str) -> float:
        wanted = getattr(self._params.prompts, section)
        there = self._lines(wanted.source) or wanted.max_prompts or HUB_PROMPTS[section]
        return min(there, wanted.max_prompts or there)

    def _reply(self, axis: str, limit: float | None = None) -> float:
        """Tokens of a reply on an axis, or under a baseline, within its limit."""
        limit = getattr(self._params.generate, axis).max_new_tokens if limit is None else limit
        return min(REPLY_TOKENS.get(axis, OTHER_REPLY_TOKENS), limit)

    def _size(self, model: str) -> int:
        return self._params.models[model].num_parameters

    def _read(self, size: int, tokens: float) -> Cost:
        """Loading a model of ``size`` parameters and reading tokens for their log-probabilities."""
        hours = cost.work_hours(size, self._rates, reading_token=tokens)
        return Cost(tokens, 0.0, cost.loading_hours(size) + hours)

    def _decode(self, size: int, tokens: float, what: str, rows: float) -> Cost:
        """Generating tokens, ``rows`` at once on a device with rates."""
        if self._rates is None:
            rows = NUMBERS_AT_ONCE if what in NUMBERS else TEXTS_AT_ONCE
        else:
            rows = min(rows, self._rates.decoding_rows)
        return Cost(0.0, tokens, cost.work_hours(size, self._rates, decoding_step=tokens / rows))

    def spaces(self, space: str, string_bytes: float = STRING_BYTES) -> Cost:
        prompts, _ = self._prompts("structured" if space == "eval" else "train")
        return Cost(disk_bytes=prompts * (getattr(self._params.discretize, space).max_bins or 0) * string_bytes)

    def tries(self, space: str) -> Cost:
        return self.spaces(space, TRIE_STRING_BYTES)

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
        made, size, train = self._params.methods[method], self._size(model), training_settings(self._params, method)
        modules, (prompts, prompt_tokens) = self._params.models[model].lora_target_modules, self._prompts("train")
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
        return total + Cost(gpu_hours=cost.work_hours(size, self._rates, training_step=steps, training_token=tokens))

    def training_memory(self, model: str) -> float:
        """Bytes that the largest pass of any method takes on a GPU that trains by itself."""
        config, most = self._params.models[model], 0.0
        longest = TEMPLATE_TOKENS + max(map(cost.estimate_tokens, self._texts("train")), default=0)
        for method, made in self._params.methods.items():
            train = training_settings(self._params, method)
            packed = [self._packed(method, target)[-1] for target in target_shares(made)]
            rows = [longest + strings * REPLY_TOKENS["structured"] for strings in packed]
            rows += [self._prompts("instructions")[1] + self._reply("instructions")] if made.anchors is not None else []
            # A pass is as wide as its longest row.
            tokens = min(train.micro_batch_size * max(rows, default=0.0), train.tokens_per_pass or math.inf)
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
        reply = self._reply(what, settings.max_new_tokens)
        if settings.answers_per_request > 1:
            each = VERBALIZED_ANSWER_TOKENS if condition == "verbalized" else reply
            reply = min(settings.answers_per_request * each, settings.max_new_tokens)
        # Replies in a style are taken to be as long as they may be.
        styles = [style.max_new_tokens for style in answer_styles(settings).values()]
        plain, samples = 1 + len(decoding_settings(settings)), prompts * settings.num_samples
        written, size = samples * (plain * reply + sum(styles)), self._size(model)
        disk = written * TOKEN_BYTES + samples * (plain + len(styles)) * GENERATION_BYTES
        read = self._read(size, prompts * (1 + len(styles)) * prompt_tokens)
        rows = min(settings.batch_size, samples) or 1
        return read + self._decode(size, written, what, rows) + Cost(disk_bytes=disk)

    def preflight(self, model: str) -> Cost:
        size, (_, tokens) = self._size(model), self._prompts("structured")
        written = self._decode(size, PREFLIGHT_SAMPLES, "structured", PREFLIGHT_ROWS)
        return self._read(size, tokens * PREFLIGHT_READS) + written

    def structured_scores(self, model: str) -> Cost:
        """Divergences along paths of two targets, and bounds on the law over plain decimals."""
        prompts, tokens = self._prompts("structured")
        paths = 2 * prompts * self._params.evaluate.paths_per_prompt * (tokens + REPLY_TOKENS["structured"])
        positions = prompts * BOUNDS_SHARE * self._params.evaluate.bounds_max_positions
        return self._read(self._size(model), paths + positions)

    def exact_own_laws(self, model: str) -> Cost:
        return self._read(self._size(model), self._prompts("laws")[0] * OWN_LAW_PREFIXES)

    def first_steps(self, model: str) -> Cost:
        return self._read(self._size(model), math.prod(self._prompts("open")))

    def question_steps(self, model: str) -> Cost:
        """The same of questions, and of all tokens of the default setting's answers."""
        questions, tokens = self._prompts("questions")
        answers = self._params.generate.questions.num_samples * (tokens + self._reply("questions"))
        return self._read(self._size(model), questions * (tokens + answers))

    def judged_words(self, model: str) -> Cost:
        """Hidden words of the tested answers (1.5 each), behind the list of answers and behind each summary."""
        settings, (questions, tokens) = self._params.selfreflect, self._prompts("questions")
        contexts = 2 + 3 * self._params.generate.selfreflect.num_samples
        words = 1.5 * questions * settings.test_answers * contexts
        judge = settings.judge or self._params.models[model]
        return self._read(judge.num_parameters, words * (tokens + PROTOCOL_TOKENS))

    def retention(self, model: str) -> Cost:
        retention, size = self._params.retention, self._size(model)
        items = {task: TASKS[task].items for task in retention.tasks}
        answers = sum(count for task, count in items.items() if task in GENERATIVE_TASKS)
        written = answers * self._reply("gsm8k", retention.max_new_tokens)
        rows = max(retention.tokens_per_pass // TASK_TOKENS["gsm8k"], 1)
        read = self._read(size, sum(count * TASK_TOKENS[task] for task, count in items.items()))
        return read + self._decode(size, written, "gsm8k", rows)

    def paloma(self, model: str) -> Cost:
        """PALOMA; compressed English is about one token for each byte and a half."""
        paloma, tokens = self._params.paloma, 0.0
        for name in paloma.slices:
            files = (self._project / paloma.source / name).rglob("*.jsonl.gz")
            local = is_local_path(paloma.source)
            whole = sum(file.stat().st_size for file in files) / 1.5 if local else SLICE_TOKENS
            tokens += min(whole, (paloma.max_documents_per_slice or math.inf) * DOCUMENT_TOKENS)
        return self._read(self._size(model), tokens * len(paloma.bos) * paloma.window / paloma.stride)

    def divergences(self, model: str) -> Cost:
        """Replies of base and of the condition, each read with and without the adapter."""
        prompts, tokens = self._prompts("anchors")
        replies = 4 * prompts * self._params.generate.anchors.num_samples
        return self._read(self._size(model), replies * (tokens + self._reply("anchors")))

    def partition(self, model: str) -> Cost:
        classifier = self._params.evaluate.novelty.classifier
        responses = self._prompts("novelty")[0] * self._params.generate.novelty.num_samples
        tokens = responses * PAIRS_PER_RESPONSE * 2 * min(self._reply("novelty"), classifier.max_tokens)
        return self._read(CLASSIFIER_PARAMETERS, tokens) if classifier.kind == "deberta" else Cost()

    def reward(self, model: str) -> Cost:
        prompts, tokens = self._prompts("novelty")
        skywork = self._params.evaluate.novelty.reward.kind == "skywork"
        replies = prompts * self._params.generate.novelty.num_samples
        return self._read(
            REWARD_PARAMETERS if skywork else self._size(model), replies * (tokens + self._reply("novelty"))
        )
