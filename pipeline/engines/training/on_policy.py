"""Replies of the model that is being trained, written anew every so many steps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedTokenizerBase

from pipeline.core.random_streams import random_stream, stream_seed
from pipeline.core.training.examples import family_balanced_order
from pipeline.engines.loading.chat import reply_ids
from pipeline.engines.sampling.generate import generate_prompts
from pipeline.engines.training.distributed import ProcessGroup
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from peft import PeftModel


class OnPolicyReplies:
    """What the adapted model replies to instructions, as it was at the last refresh.

    Args:
        model: The model that is trained.
        tokenizer: Its tokenizer.
        prompts: Encoded instructions.
        kinds: Kind of each; a refresh takes from all of them in turn.
        stop_ids: Tokens that end a reply.
        terminator: Token that ends the model's turn.
        sequences_per_step: Replies in a step.
        steps: Steps between two refreshes.
        max_new_tokens: Longest reply.
        names: Root seed and model: they name the streams.
        group: The processes that train together; the first one's replies count.

    Raises:
        ConfigError: The model's layers are shared out among processes.
    """

    def __init__(
        self,
        model: "PeftModel",
        tokenizer: PreTrainedTokenizerBase,
        prompts: Sequence[list[int]],
        kinds: Sequence[str],
        stop_ids: set[int],
        terminator: int,
        *,
        sequences_per_step: int,
        steps: int,
        max_new_tokens: int,
        names: tuple[int, str],
        group: ProcessGroup,
    ):
        if group.shards:
            raise ConfigError(
                "methods.*.anchors.divergence: reverse cannot be trained with distributed.strategy fsdp, because every "
                "process would have to write each reply; ddp and single are allowed, and so is forward"
            )
        self._model, self._tokenizer, self._prompts, self._kinds = model, tokenizer, prompts, kinds
        self._stop_ids, self._terminator, self._max_new_tokens = stop_ids, terminator, max_new_tokens
        self._size, self._steps, self._names, self._group = sequences_per_step, steps, names, group
        self._pairs: list[tuple[int, list[int]]] = []

    def of_step(self, step: int) -> list[tuple[int, list[int]]]:
        """Place of the instruction and token ids of the reply, for each reply of a step (from 0)."""
        if step % self._steps == 0:
            self._pairs = self._group.shared(self._written(step) if self._group.is_main else None)
        start = step % self._steps * self._size
        return self._pairs[start : start + self._size]

    def _written(self, step: int) -> list[tuple[int, list[int]]]:
        seed, model = self._names
        count, places = self._steps * self._size, []
        for number in range(-(-count // len(self._prompts))):
            rng = random_stream(seed, "on_policy_order", model, step, number)
            places += family_balanced_order(self._kinds, rng)
        places = places[:count]
        seeds = [[stream_seed(seed, "on_policy", model, step, index)] for index in range(count)]
        self._model.eval()
        stream = generate_prompts(
            self._model,
            self._tokenizer,
            [self._prompts[place] for place in places],
            seeds,
            stop_ids=self._stop_ids,
            max_new_tokens=self._max_new_tokens,
            temperature=1.0,
            top_p=1.0,
            batch_size=count,
            strategy="rows",
        )
        answers = {place: answer for finished in stream for place, _, answer in finished}
        self._model.train()
        texts = [answers[index].text for index in range(count)]
        ended = [answers[index].finish_reason == "stop" for index in range(count)]
        return list(zip(places, reply_ids(self._tokenizer, texts, ended, self._terminator), strict=True))

    def state(self) -> Any:
        """See StepMemory."""
        return self._pairs

    def restore(self, state: Any) -> None:
        """See StepMemory."""
        self._pairs = [(place, ids) for place, ids in state]
