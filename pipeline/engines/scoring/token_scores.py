"""What a model thinks of tokens: the one place where states reach the output head, those of chosen positions alone.

Log-probabilities are normalised over the full vocabulary in float32 whatever the model's dtype.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from pipeline.core.training.batches import collate
from pipeline.core.training.examples import soft_example
from pipeline.core.training.objectives import forward_kl
from pipeline.core.tries.implicit_trie import ImplicitTrie
from pipeline.core.tries.trie import Trie
from pipeline.engines.loading.memory import length_buckets, right_padded
from pipeline.engines.loading.model import PositionLogits

if TYPE_CHECKING:
    from peft import PeftModel

POSITIONS_PER_CALL = 512
"""Positions whose logits are held at a time: 297 MiB in float32 at 151,936 tokens; 4 MiB at 2,048 tokens."""
DIRECTIONS = ("forward", "reverse")  # of a divergence: KL(base || model), or KL(model || base)
LAWS_PER_CALL = 64  # laws whose entropy is taken at a time, in float64: 0.1 GB at 151,936 tokens

Measure = Callable[[Callable[[], torch.Tensor], torch.Tensor, np.ndarray], np.ndarray]
"""(forward pass, tokens int64[P], indices of their sequences int64[P]) to numbers of each token, float64[P, ...]. The
forward pass returns the states float[P, ...] that predict the tokens."""


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The ranges start..start + count - 1, one after the other."""
    return np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)


def logits_in_parts(logits_at: PositionLogits, states: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """Consecutive positions of ``states`` and their logits, float32[p, V], with p at most ``POSITIONS_PER_CALL``."""
    for start in range(0, len(states), POSITIONS_PER_CALL):
        part = slice(start, start + POSITIONS_PER_CALL)
        yield part, logits_at.head(states[part]).float()


def token_scores(logits_at: PositionLogits, states: torch.Tensor, tokens: torch.Tensor) -> np.ndarray:
    """Of int64[P] tokens that float[P, ...] states predict, float64[P, 2]: log-probabilities in nats, and 1 where a
    token is the most probable one or as probable as that."""
    losses, best = [], []
    for part, logits in logits_in_parts(logits_at, states):
        losses.append(torch.nn.functional.cross_entropy(logits, tokens[part], reduction="none"))
        best.append(logits.gather(1, tokens[part, None])[:, 0] == logits.amax(dim=1))
    # One transfer per pass, so that a GPU need not wait between the parts.
    return torch.stack([-torch.cat(losses).double(), torch.cat(best).double()], dim=1).cpu().numpy()


def candidate_log_probabilities(
    logits_at: PositionLogits, states: torch.Tensor, rows: np.ndarray, tokens: np.ndarray
) -> np.ndarray:
    """Log-probabilities, float64[E] in nats, of int64[E] tokens behind ascending ``rows`` int64[E] of the states."""
    where, wanted = (torch.from_numpy(values).to(states.device) for values in (rows, tokens))
    values = []
    for part, logits in logits_in_parts(logits_at, states):
        asked = slice(*np.searchsorted(rows, (part.start, part.stop)))
        own = where[asked] - part.start
        values.append(logits[own, wanted[asked]] - logits.logsumexp(dim=1)[own])
    return torch.cat(values).double().cpu().numpy()


def most_tokens(logits_at: PositionLogits, tokens_per_pass: int) -> int:
    """Tokens per forward pass at most: without hidden states all logits of a pass are there at once."""
    return tokens_per_pass if logits_at.gathers_hidden else min(tokens_per_pass, POSITIONS_PER_CALL)


class RowScorer:
    """Numbers of the tokens at the ends of sequences, many sequences per forward pass, which does not matter to them.

    ``tokens_per_pass`` counts padding; a longer sequence goes alone.
    """

    def __init__(self, logits_at: PositionLogits, tokens_per_pass: int):
        self.logits_at = logits_at
        self._tokens_per_pass = most_tokens(logits_at, tokens_per_pass)

    @torch.inference_mode()
    def score(
        self, sequences: Sequence[Sequence[int]], starts: Sequence[int], measure: Measure | None = None
    ) -> Iterator[list[tuple[int, np.ndarray]]]:
        """Score the tokens of each sequence from its start (at least 1) on, by ``token_scores`` or another measure.

        Yields (index of the sequence, numbers of its tokens), a forward pass at a time; every index once.
        """
        measure = measure or (lambda states, tokens, _: token_scores(self.logits_at, states(), tokens))
        device = self.logits_at.device
        for members in length_buckets([len(sequence) - 1 for sequence in sequences], self._tokens_per_pass):
            # The last token of a sequence predicts nothing that is scored, so it is not an input. Padding is on the
            # right, where attention does not look, and needs no mask.
            ids, _ = right_padded([sequences[index][:-1] for index in members], device)
            sizes = np.array([len(sequences[index]) - starts[index] for index in members])
            rows = np.repeat(np.arange(len(members)), sizes)
            columns = ranges(np.array([starts[index] - 1 for index in members]), sizes)
            tokens = np.concatenate([sequences[index][starts[index] :] for index in members])
            rows, columns, tokens = (torch.from_numpy(values).to(device) for values in (rows, columns, tokens))
            states = partial(self.logits_at.states, ids, torch.ones_like(ids), rows, columns)
            values = measure(states, tokens, np.repeat(members, sizes))
            yield list(zip(members, np.split(values, np.cumsum(sizes)[:-1]), strict=True))


def float32_logits(logits_at: PositionLogits, states: torch.Tensor) -> torch.Tensor:
    """float32[P, V] logits of whole laws whose small differences count.

    A bfloat16 head rounds logits to 8 bits. One that is a linear map is therefore computed in float32, in parts.
    """
    head = logits_at.model.get_output_embeddings() if logits_at.gathers_hidden else None
    if not isinstance(head, torch.nn.Linear):
        return logits_at.head(states).float()
    size = max(1, POSITIONS_PER_CALL * head.out_features // head.in_features)
    weights = (part.float() for part in head.weight.split(size))
    logits = torch.cat([states.float() @ part.T for part in weights], dim=1)
    return logits if head.bias is None else logits + head.bias.float()


@torch.inference_mode()
def first_step_law(logits_at: PositionLogits, prompt_ids: Sequence[int], device: torch.device | str) -> np.ndarray:
    """float32[V] log-probabilities, nats, of the token after a request: ``float32_logits``, normalised in float64."""
    ids = torch.tensor([list(prompt_ids)], device=device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    logits = float32_logits(logits_at, logits_at.forward(inputs, last_only=True)[0][:, 0])
    return torch.log_softmax(logits[0].cpu().double(), dim=-1).float().numpy()


@torch.inference_mode()
def score_paths(
    logits_at: PositionLogits,
    prompt_ids: Sequence[int],
    trie: Trie | ImplicitTrie,
    num_paths: int,
    rng: np.random.Generator,
    pad_id: int,
    device: str,
) -> list[np.ndarray]:
    """KL(q || model) in nats at every prefix of ``num_paths`` paths y ~ P_Y: float64[L + 1] each, the empty first."""
    examples = [soft_example(prompt_ids, trie, rng) for _ in range(num_paths)]
    batch = collate(examples, pad_id).to(device)
    states = logits_at.states(batch.input_ids, batch.attention_mask, batch.rows, batch.columns)
    ids, probabilities = batch.targets.token_ids, batch.targets.probabilities
    parts = [forward_kl(logits, ids[part], probabilities[part]) for part, logits in logits_in_parts(logits_at, states)]
    divergences = torch.cat(parts).double().cpu().numpy()
    return np.split(divergences, np.cumsum([len(example.nodes) for example in examples])[:-1])


def relative_entropies(logits: torch.Tensor) -> torch.Tensor:
    """H / ln V of P laws, float64[P], from logits float32[P, V], V at least 2; in float64, or ties would be broken."""
    laws = logits.double().softmax(dim=1)
    return torch.special.entr(laws).sum(dim=1) / math.log(logits.shape[1])


def mean_entropies(scorer: RowScorer, prompt: Sequence[int], replies: Sequence[Sequence[int]]) -> np.ndarray:
    """float64[R]: ``relative_entropies`` of the laws of the tokens of R replies to a prompt, their mean by reply."""

    def entropies(states: Callable[[], torch.Tensor], *_) -> np.ndarray:
        parts = states().split(LAWS_PER_CALL)
        return torch.cat([relative_entropies(float32_logits(scorer.logits_at, part)) for part in parts]).cpu().numpy()

    rows = [[*prompt, *reply] for reply in replies]
    done = dict(item for batch in scorer.score(rows, [len(prompt)] * len(rows), entropies) for item in batch)
    return np.array([done[index].mean() for index in range(len(replies))])


def reply_divergences(
    model: "PeftModel",
    logits_at: PositionLogits,
    prompts: Sequence[Sequence[int]],
    replies: Sequence[Sequence[int]],
    directions: Sequence[str],
    tokens_per_pass: int,
) -> Iterator[list[tuple[int, float]]]:
    """KL between a model (of ``logits_at``) with and without its adapter, summed over each reply's tokens, in nats.

    ``directions`` has one of DIRECTIONS for each reply. Yields (index of the reply, its divergence) by forward pass.
    """
    forward = np.array(directions) == "forward"

    def divergences(states: Callable[[], torch.Tensor], _: torch.Tensor, owners: np.ndarray) -> np.ndarray:
        own = states()
        with model.disable_adapter():
            base = states()
        is_forward, found = torch.from_numpy(forward[owners]).to(own.device), []
        for part, logits in logits_in_parts(logits_at, own):
            with model.disable_adapter():
                others = logits_at.head(base[part]).float().log_softmax(dim=1)
            mine, chosen = logits.log_softmax(dim=1), is_forward[part, None]
            mass, difference = torch.where(chosen, others, mine).exp_(), others - mine
            found.append((mass * torch.where(chosen, difference, -difference)).sum(dim=1))
        return torch.cat(found).double().cpu().numpy()

    rows = [[*prompt, *reply] for prompt, reply in zip(prompts, replies, strict=True)]
    for batch in RowScorer(logits_at, tokens_per_pass).score(rows, list(map(len, prompts)), divergences):
        yield [(index, float(values.sum())) for index, values in batch]
