"""A model that answers the requests of tasks, in its chat template or in plain text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from pipeline.core.random_streams import stream_seed
from pipeline.core.tries.token_tree import merge_sequences
from pipeline.engines.loading.chat import text_bos
from pipeline.engines.loading.model import position_logits
from pipeline.engines.sampling.generate import generate_prompts
from pipeline.engines.sampling.samplers import SamplingLaw
from pipeline.engines.sampling.text_engine import GREEDY
from pipeline.engines.scoring.token_scores import RowScorer
from pipeline.engines.scoring.tree_attention import supports_tree_attention
from pipeline.engines.scoring.tree_scorer import TreeScorer

SHORTEST_SHARED = 16  # tokens that all contexts must begin with to be read once for all of them


class TaskModel:
    """Answers requests, in the chat template where ``in_template``, with a loaded model and its adapter. Texts are
    drawn from ``law`` (see ``task_law``) by streams of ``names``, the seed first."""

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        stop_ids: set[int],
        *,
        max_new_tokens: int,
        tokens_per_pass: int,
        in_template: bool = False,
        add_special_tokens: bool = False,
        law: Mapping[str, float | int | None] = GREEDY,
        names: Sequence[str | int] = (0,),
    ):
        self.model, self.tokenizer, self.stop_ids, self.in_template = model, tokenizer, stop_ids, in_template
        self.max_new_tokens, self.tokens_per_pass, self.law, self.names = max_new_tokens, tokens_per_pass, law, names
        bos = text_bos(tokenizer)
        self._bos = [] if bos is None else [bos]
        self._doubles_bos = add_special_tokens and in_template

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, behind one BOS where the tokenizer adds one and the template has not printed it."""
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        has_bos = ids[: len(self._bos)] == self._bos and not self._doubles_bos
        return ids if has_bos else [*self._bos, *ids]

    def encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Token ids of a context and of its continuation, which behind a chat template is encoded by itself.

        Plain text is split as lm-evaluation-harness splits it: blanks at its end go to the continuation, and both are
        encoded together and cut after as many tokens as the context has alone.
        """
        if self.in_template:
            return self.encode(context), self.tokenizer(continuation, add_special_tokens=False)["input_ids"]
        end = len(context.rstrip())
        context, continuation = context[:end], context[end:] + continuation
        alone = self.encode(context)
        return alone, self.encode(context + continuation)[len(alone) :]

    def answer(self, request_type: str, arguments: Sequence[tuple]) -> Iterator[list[tuple[int, Any]]]:
        """Answer requests of one type: index and response of each, as they are done.

        Of ``loglikelihood`` (context, continuation) that is nats; of ``generate_until`` (context, stop strings, the
        same for all) the text, num_tokens and finish_reason.
        """
        if request_type == "loglikelihood":
            yield from self._log_likelihoods([self.encode_pair(*pair) for pair in arguments])
            return
        (stops,) = {tuple(stops) for _, stops in arguments}
        prompts = [self.encode(context) for context, _ in arguments]
        for answers in generate_prompts(
            self.model,
            self.tokenizer,
            prompts,
            [[stream_seed(*self.names, context)] for context, _ in arguments],
            [SamplingLaw(**self.law)] * len(prompts),
            stop_ids=self.stop_ids,
            max_new_tokens=self.max_new_tokens,
            batch_size=max(self.tokens_per_pass // max(map(len, prompts)), 1),
            stops=stops,
        ):
            fields = ("text", "num_tokens", "finish_reason")
            yield [(place, {name: getattr(answer, name) for name in fields}) for place, _, answer in answers]

    def _log_likelihoods(self, pairs: Sequence[tuple[list[int], list[int]]]) -> Iterator[list[tuple[int, float]]]:
        """Log-likelihood of each continuation behind its context, by context; what they share is read once."""
        if not supports_tree_attention(self.model):
            rows, starts = [[*context, *rest] for context, rest in pairs], [len(context) for context, _ in pairs]
            for scored in RowScorer(position_logits(self.model), self.tokens_per_pass).score(rows, starts):
                yield [(place, float(each[:, 0].sum())) for place, each in scored]
            return
        by_context: dict[tuple[int, ...], list[int]] = {}
        for place, (context, _) in enumerate(pairs):
            by_context.setdefault(tuple(context), []).append(place)
        first, last = min(by_context), max(by_context)
        differ = (place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
        shared = next(differ, min(len(first), len(last)))
        trees = {}
        for context, places in by_context.items():
            read = shared if shared >= SHORTEST_SHARED else len(context)
            trees[context] = read, *merge_sequences([[*context[read:], *pairs[place][1]] for place in places])
        # A pass holds the whole tree of a context.
        scorer = TreeScorer(self.model, max(len(tree) for _, tree, _ in trees.values()))
        before, prompt = None, None
        for context, (read, tree, nodes_of) in trees.items():
            if context[:read] != before:
                before, prompt = context[:read], scorer.prefill(context[:read])
            continued = [nodes[len(context) - read :] for nodes in nodes_of]
            log_probabilities = scorer.score_nodes(prompt, tree, np.unique(np.concatenate(continued)))
            yield [
                (place, float(log_probabilities[nodes].sum()))
                for place, nodes in zip(by_context[context], continued, strict=True)
            ]
