"""What the stages of a DAG cost under given parameters: ``pipeline.estimates.cost`` applied to ``params.yaml``."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pipeline.axes.questions.prompt_set import read_questions
from pipeline.axes.questions.question import Question
from pipeline.config.conditions import answer_styles, decoding_settings, generation_settings, training_settings
from pipeline.config.evaluation import SAMPLED_AS
from pipeline.config.methods import target_shares
from pipeline.config.params import Params
from pipeline.config.retention import is_local_path
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.prompts.instructions import HELD_OUT
from pipeline.core.prompts.multiple_choice import MCQ_PROMPT
from pipeline.core.prompts.structured import Prompt, build_split
from pipeline.core.retention.tasks import GENERATIVE_TASKS, TASKS
from pipeline.estimates import cost
from pipeline.estimates.cost import Cost
from pipeline.estimates.rates import Rates
from pipeline.sources.instructions import read_instructions
from pipeline.sources.open_prompts import read_open_prompts

NOVELTY_SPLIT_SIZES = {"curated": 100, "wildchat": 1000}
"""Prompts of NoveltyBench's public splits."""
NOVELTY_PROMPT_TOKENS = 60
CLASSIFIER_PARAMETERS = 435_000_000
"""Of DeBERTa-v3-large."""
REWARD_PARAMETERS = 27_200_000_000
"""Of Skywork-Reward-Gemma-2-27B."""
PAIRS_PER_RESPONSE = 3.0
"""Representatives that a response is compared with on average."""
PREFLIGHT_REQUESTS, PREFLIGHT_SAMPLES = 4, 4000
"""Of the checks of the sampled law: requests, and samples of each, half of them of one token and half of two."""
PREFLIGHT_READS = 600
"""Forward passes of a request: to choose the requests, and behind each first token of their exact laws."""
PREFLIGHT_ROWS = 256
"""Answers that the preflight draws at once."""
NUM_INSTRUCTIONS, INSTRUCTION_TOKENS = 400, 40
"""Of a data set of the hub, where prompts.instructions.max_prompts does not say."""
NUM_QUESTIONS = 100
"""Of a data set of the hub, where prompts.questions.max_prompts does not say."""
PERTURBATION_TOKENS = 3
"""That a template adds to a question."""
LIST_MARK_TOKENS = 2
"""Around an answer in a list."""
WORDS_PER_ANSWER = 1.5
"""Content words of an answer to a question; assumed."""
TOKENS_PER_DOCUMENT = 500
"""Of a PALOMA document, where their number is limited."""
BOUNDS_SHARE = 0.1
"""Share of evaluate.bounds_max_positions that the bounds of the exact law need on average."""


def _mean_tokens(texts: Sequence[str]) -> float:
    return cost.TEMPLATE_TOKENS + (statistics.fmean(map(cost.estimate_tokens, texts)) if texts else 0.0)


class Prices:
    """Costs of stages under one set of parameters; a stage that loads no model costs no GPU time."""

    def __init__(self, params: Params, project: Path = Path(), rates: Rates | None = None):
        """``project`` is where relative paths of local data start; ``rates`` replace those of the paper's code."""
        self._params, self._project, self._rates = params, project, rates

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

    @cached_property
    def _own_prompts(self) -> tuple[list[Prompt], list[Prompt]]:
        from pipeline.sources.own_laws import own_prompts

        return own_prompts(self._params.laws, self._project)

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
        if is_local_path(novelty.source) and (self._project / novelty.source).is_file():
            sizes = [len((self._project / novelty.source).read_text().splitlines())]
        else:
            sizes = [NOVELTY_SPLIT_SIZES.get(split, 1000) for split in novelty.splits]
        count = sum(sizes) if limit is None else min(sum(sizes), limit * len(novelty.splits))
        source = self._params.prompts.open.source
        open_prompts = read_open_prompts(source and str(self._project / source))
        open_texts = [prompt.text for prompt in open_prompts]
        return {
            "structured": (len(self._test_texts), _mean_tokens(self._test_texts)),
            "open": (len(open_texts), _mean_tokens(open_texts)),
            "mcq": (1, _mean_tokens([MCQ_PROMPT])),
            "novelty": (count, float(NOVELTY_PROMPT_TOKENS)),
            "laws": (len(own := [prompt.text for prompt in self._own_prompts[1]]), _mean_tokens(own)),
            **self._instructions,
            "questions": self._questions,
            "perturbations": self._perturbations,
            "selfreflect": self._summaries,
        }

    @property
    def _perturbations(self) -> tuple[int, float]:
        """The same of questions and their perturbations, which are a little longer."""
        wanted, (count, tokens) = self._params.prompts.perturbations, self._questions
        if wanted is None:
            return 0, 0.0
        asked = count if wanted.max_questions is None else min(count, wanted.max_questions)
        return asked * (wanted.number + 1), tokens + PERTURBATION_TOKENS

    @cached_property
    def _questions(self) -> tuple[int, float]:
        """The same of questions."""
        wanted = self._params.prompts.questions
        if wanted is None:
            return 0, 0.0
        if not self._local_questions:
            return wanted.max_prompts or NUM_QUESTIONS, float(cost.TEMPLATE_TOKENS + INSTRUCTION_TOKENS)
        texts = [question.text for question in self._local_questions]
        return len(texts), _mean_tokens(texts)

    def _listed_tokens(self) -> float:
        """Tokens of the list of a question's answers."""
        drawn, summarised = self._params.generate.questions, self._params.selfreflect
        if drawn is None or summarised is None:
            return 0.0
        each = min(cost.TYPICAL_COMPLETION_TOKENS["questions"], drawn.max_new_tokens) + LIST_MARK_TOKENS
        return (drawn.num_samples - summarised.test_answers) * each

    @cached_property
    def _summaries(self) -> tuple[int, float]:
        """The same of requests for summaries: of every question with its answers, and without them."""
        questions, tokens = self._questions
        return 2 * questions, tokens + cost.SUMMARY_REQUEST_TOKENS + self._listed_tokens() / 2

    @cached_property
    def _local_questions(self) -> list[Question]:
        """Questions of a file; none of a data set of the hub."""
        wanted = self._params.prompts.questions
        place = self._project / wanted.source
        found = is_local_path(wanted.source) and place.is_file()
        return read_questions(replace(wanted, source=str(place)), None) if found else []

    @cached_property
    def _instructions(self) -> dict[str, tuple[int, float]]:
        """The same of instructions: those held out, which the axis "anchors" asks, and the others."""
        wanted = self._params.prompts.instructions
        place = self._project / wanted.source
        if not (is_local_path(wanted.source) and place.is_file()):
            count = wanted.max_prompts or NUM_INSTRUCTIONS
            held_out = round(wanted.held_out_share * count)
            tokens = float(cost.TEMPLATE_TOKENS + INSTRUCTION_TOKENS)
            return {"anchors": (held_out, tokens), "instructions": (count - held_out, tokens)}
        found = read_instructions(replace(wanted, source=str(place)), None, self._params.seed)
        texts: dict[str, list[str]] = {"anchors": [], "instructions": []}
        for prompt in found:
            texts["anchors" if prompt.split == HELD_OUT else "instructions"].append(prompt.text)
        return {axis: (len(own), _mean_tokens(own)) for axis, own in texts.items()}

    def spaces(self, space: str) -> Cost:
        """Output spaces of all prompts."""
        return self._strings(space, cost.BYTES_PER_STRING_IN_SPACE)

    def tries(self, space: str) -> Cost:
        """Tries of those output spaces."""
        return self._strings(space, cost.BYTES_PER_STRING_IN_TRIE)

    def _strings(self, space: str, size: float) -> Cost:
        max_bins = getattr(self._params.discretize, space).max_bins
        prompts = len(self._test_texts if space == "eval" else self._train_texts)
        return Cost(disk_bytes=prompts * (max_bins or 0) * size)

    def training(self, model: str, method: str) -> Cost:
        """An adapter: of two targets each takes its share of the steps; anchors come on top of them."""
        made, size = self._params.methods[method], self._params.models[model].num_parameters
        total = sum(
            (self._towards(model, method, name).times(share) for name, share in target_shares(made).items()), Cost()
        )
        if made.anchors is None:
            return total
        steps = sum(share * self._steps(method, name) for name, share in target_shares(made).items())
        sequences = made.anchors.sequences_per_step * steps
        reply = min(cost.TYPICAL_COMPLETION_TOKENS["anchors"], self._params.generate.instructions.max_new_tokens)
        read, written = sequences * self._instructions["instructions"][1], sequences * reply
        # The base checkpoint's law takes one more forward pass.
        passes = 1.0 if made.anchors.divergence == "replay" else 1.5
        return total + Cost(read, written, cost.training_hours(0, passes * (read + written), size, self._rates))

    def training_memory(self, model: str) -> float:
        """Bytes that the largest pass of any method takes on a GPU that trains by itself."""
        config, typical = self._params.models[model], cost.TYPICAL_COMPLETION_TOKENS
        # A pass is as wide as its longest row.
        longest = cost.TEMPLATE_TOKENS + max(map(cost.estimate_tokens, self._train_texts), default=0)
        most = 0.0
        for method, made in self._params.methods.items():
            train = training_settings(self._params, method)
            packed = [self._packed(method, target)[-1] for target in target_shares(made)]
            rows = [longest + strings * typical["structured"] for strings in packed]
            if made.anchors is not None:
                reply = min(typical["anchors"], self._params.generate.instructions.max_new_tokens)
                rows.append(self._instructions["instructions"][1] + reply)
            tokens = train.micro_batch_size * max(rows, default=0.0)
            tokens = min(tokens, train.tokens_per_pass or tokens)
            modules = len(config.lora_target_modules)
            most = max(most, cost.training_memory_bytes(config.num_parameters, tokens, train.lora_rank, modules))
        return most

    def _packed(self, method: str, target: str) -> tuple[int, int, int]:
        """Epochs, strings per prompt and epoch, and strings per example of a target."""
        train = training_settings(self._params, method)
        if target == "hard":
            return train.hard.epochs, train.hard.samples_per_prompt, train.hard.completions_per_prompt
        # Each example of the soft target is one prompt with its paths; the whole trie counts as if it were 16.
        packed = {"path": 1, "paths": train.soft.paths_per_prompt, "exact": 16}[train.soft.estimator]
        return train.soft.epochs, train.soft.samples_per_prompt * packed, packed

    def _steps(self, method: str, target: str) -> int:
        epochs, samples, packed = self._packed(method, target)
        batch = training_settings(self._params, method).global_batch_size
        return cost.training_steps_of(len(self._train_texts), samples // packed, epochs, batch)

    def _towards(self, model: str, method: str, target: str) -> Cost:
        epochs, samples, packed = self._packed(method, target)
        train = training_settings(self._params, method)
        return cost.training_cost(
            num_parameters=self._params.models[model].num_parameters,
            prompt_tokens=_mean_tokens(self._train_texts),
            prompts=len(self._train_texts),
            epochs=epochs,
            samples_per_prompt=samples,
            completions_per_example=packed,
            global_batch_size=train.global_batch_size,
            rank=train.lora_rank,
            num_modules=len(self._params.models[model].lora_target_modules),
            rates=self._rates,
        )

    def generation(self, model: str, axis: str, condition: str) -> Cost:
        """Answers of a condition on an axis; of an axis that nothing is known of, as of that whose settings it has."""
        baseline = getattr(self._params.generate, condition, None)
        settings = generation_settings(self._params, axis, condition)
        axis = axis if axis in self._axis_texts else SAMPLED_AS[axis]
        prompts, prompt_tokens = self._axis_texts[axis]
        typical = cost.TYPICAL_COMPLETION_TOKENS.get(condition, cost.TYPICAL_COMPLETION_TOKENS[axis])
        if baseline is not None and condition != "constrained":
            prompt_tokens += cost.PROTOCOL_TOKENS
        if settings.answers_per_request > 1:
            each = cost.TOKENS_PER_VERBALIZED_ANSWER if condition == "verbalized" else typical
            typical = settings.answers_per_request * each
        replies = [min(typical, settings.max_new_tokens)] * (1 + len(decoding_settings(settings)))
        styles = answer_styles(settings)
        # Of a style only the longest reply is known.
        replies += [style.max_new_tokens for style in styles.values()]
        return cost.sampling_cost(
            num_parameters=self._params.models[model].num_parameters,
            prompt_tokens=prompt_tokens,
            prompts=prompts * (1 + len(styles)),
            samples=settings.num_samples * len(replies) / (1 + len(styles)),
            completion_tokens=statistics.fmean(replies),
            sequences_at_once=cost.SEQUENCES_AT_ONCE.get(condition, cost.SEQUENCES_AT_ONCE[axis]),
            rates=self._rates,
            rows=min(settings.batch_size, prompts * settings.num_samples) or 1,
        )

    def preflight(self, model: str) -> Cost:
        """The checks of a model."""
        tokens = _mean_tokens(self._test_texts[:1])
        return cost.sampling_cost(
            num_parameters=self._params.models[model].num_parameters,
            prompt_tokens=tokens * PREFLIGHT_READS / PREFLIGHT_REQUESTS,
            prompts=PREFLIGHT_REQUESTS,
            samples=PREFLIGHT_SAMPLES,
            completion_tokens=1.5,
            sequences_at_once=cost.SEQUENCES_AT_ONCE["structured"],
            rates=self._rates,
            rows=PREFLIGHT_ROWS,
        )

    def _scoring(self, model: str, tokens: float, utilisation: float = cost.PREFILL_UTILISATION) -> Cost:
        size = self._params.models[model].num_parameters
        return cost.scoring_cost(num_parameters=size, tokens=tokens, utilisation=utilisation, rates=self._rates)

    def path_scores(self, model: str) -> Cost:
        """Divergences along paths."""
        prompts, prompt_tokens = self._axis_texts["structured"]
        path = prompt_tokens + cost.TYPICAL_COMPLETION_TOKENS["structured"]
        # Against the evaluation grid, and against every decimal.
        tokens = 2 * prompts * self._params.evaluate.paths_per_prompt * path
        return self._scoring(model, tokens)

    def exact_law(self, model: str) -> Cost:
        """Bounds, and figures over whole tries."""
        positions = BOUNDS_SHARE * self._params.evaluate.bounds_max_positions
        largest = self._params.discretize.eval.max_bins
        whole = self._params.evaluate.exact_max_prefixes
        # A trie has about two prefixes for each of its strings.
        positions += 2 * largest if whole is None or 2 * largest <= whole else 0
        return self._scoring(model, len(self._test_texts) * positions)

    def exact_own_laws(self, model: str) -> Cost:
        """Whole tries of finite laws; about two prefixes for each string."""
        strings = [len(prompt.law.strings) for prompt in self._own_prompts[1] if isinstance(prompt.law, FiniteLaw)]
        return self._scoring(model, 2 * float(sum(strings)))

    def first_steps(self, model: str) -> Cost:
        """Laws of first tokens."""
        prompts, prompt_tokens = self._axis_texts["open"]
        return self._scoring(model, prompts * prompt_tokens)

    def question_steps(self, model: str) -> Cost:
        """The same of questions, and of all tokens of the default setting's answers; equal answers are read once."""
        (questions, prompt_tokens), settings = self._questions, self._params.generate.questions
        reply = min(cost.TYPICAL_COMPLETION_TOKENS["questions"], settings.max_new_tokens)
        return self._scoring(model, questions * (prompt_tokens + settings.num_samples * (prompt_tokens + reply)))

    def judged_words(self, model: str) -> Cost:
        """Hidden words of the tested answers: behind the list, each of two written summaries and two references."""
        settings, (questions, prompt_tokens) = self._params.selfreflect, self._questions
        written = self._params.generate.selfreflect
        reply = min(cost.TYPICAL_COMPLETION_TOKENS["selfreflect"], written.max_new_tokens)
        # The null is a written summary, the perfect one about as long as the list.
        contexts = 2 * self._listed_tokens() + 3 * written.num_samples * reply
        each = (2 + 3 * written.num_samples) * (prompt_tokens + cost.SUMMARY_REQUEST_TOKENS) + contexts
        judge = settings.judge or self._params.models[model]
        tokens = questions * settings.test_answers * WORDS_PER_ANSWER * each
        return cost.scoring_cost(num_parameters=judge.num_parameters, tokens=tokens)

    def retention(self, model: str) -> Cost:
        """The tasks of what is kept."""
        retention = self._params.retention
        items = {task: TASKS[task].items for task in retention.tasks}
        tokens = sum(count * cost.TASK_TOKENS[task] for task, count in items.items())
        scored = self._scoring(model, tokens, cost.RETENTION_UTILISATION)
        answers = sum(count for task, count in items.items() if task in GENERATIVE_TASKS)
        if not answers:
            return scored
        written = answers * min(cost.TYPICAL_COMPLETION_TOKENS["gsm8k"], retention.max_new_tokens)
        rows = max(retention.tokens_per_pass // cost.TASK_TOKENS["gsm8k"], 1)
        size, together = self._params.models[model].num_parameters, cost.SEQUENCES_AT_ONCE["mcq"]
        hours = cost.decoding_hours(written, size, together, self._rates, rows)
        return scored + Cost(completion_tokens=written, gpu_hours=hours)

    def paloma(self, model: str) -> Cost:
        """PALOMA."""
        paloma = self._params.paloma
        tokens = 0.0
        for name in paloma.slices:
            files = (
                list((self._project / paloma.source / name).rglob("*.jsonl.gz")) if is_local_path(paloma.source) else []
            )
            # Compressed English is about one token for each byte and a half.
            whole = (
                sum(file.stat().st_size for file in files) / 1.5
                if is_local_path(paloma.source)
                else cost.TOKENS_PER_SLICE
            )
            limit = paloma.max_documents_per_slice
            tokens += whole if limit is None else min(whole, limit * TOKENS_PER_DOCUMENT)
        read = tokens * len(paloma.bos) * paloma.window / paloma.stride
        return self._scoring(model, read, cost.PALOMA_UTILISATION)

    def divergences(self, model: str) -> Cost:
        """Replies of base and of the condition, each read with and without the adapter."""
        prompts, prompt_tokens = self._axis_texts["anchors"]
        settings = self._params.generate.anchors
        reply = min(cost.TYPICAL_COMPLETION_TOKENS["anchors"], settings.max_new_tokens)
        tokens = 4 * prompts * settings.num_samples * (prompt_tokens + reply)
        return self._scoring(model, tokens)

    def _responses(self) -> tuple[int, float]:
        """Responses of a condition on NoveltyBench, and their mean tokens."""
        settings = self._params.generate.novelty
        tokens = min(cost.TYPICAL_COMPLETION_TOKENS["novelty"], settings.max_new_tokens)
        return self._axis_texts["novelty"][0] * settings.num_samples, tokens

    def partition(self, model: str) -> Cost:
        """Classes of NoveltyBench responses."""
        classifier = self._params.evaluate.novelty.classifier
        if classifier.kind != "deberta":
            return Cost()
        responses, tokens = self._responses()
        read = responses * PAIRS_PER_RESPONSE * 2 * min(tokens, classifier.max_tokens)
        return cost.scoring_cost(num_parameters=CLASSIFIER_PARAMETERS, tokens=read, rates=self._rates)

    def reward(self, model: str) -> Cost:
        """Their rewards."""
        responses, tokens = self._responses()
        size = (
            REWARD_PARAMETERS
            if self._params.evaluate.novelty.reward.kind == "skywork"
            else self._params.models[model].num_parameters
        )
        read = responses * (NOVELTY_PROMPT_TOKENS + tokens)
        return cost.scoring_cost(num_parameters=size, tokens=read, rates=self._rates)
