"""Replies of the model that is being trained, written anew every so many steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from transformers import PreTrainedTokenizerBase

from pipeline.core.random_streams import random_stream, stream_seed
from pipeline.core.training.examples import family_balanced_order
from pipeline.engines.loading.chat import reply_ids
from pipeline.engines.sampling.generate import generate_prompts
from pipeline.engines.training.distributed import ProcessGroup
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from peft import PeftModel


@dataclass
class OnPolicyReplies:
    """What the adapted model replies to instructions, as it was at the last refresh."""

    model: "PeftModel"
    tokenizer: PreTrainedTokenizerBase
    prompts: Sequence[list[int]]
    """Encoded instructions."""
    kinds: Sequence[str]
    """Kind of each; a refresh takes from all of them in turn."""
    stop_ids: set[int]
    terminator: int
    """Token that ends the model's turn."""
    sequences_per_step: int
    steps: int
    """Between two refreshes."""
    max_new_tokens: int
    names: tuple[int, str]
    """Root seed and model: they name the streams."""
    group: ProcessGroup
    """The processes that train together; the first one's replies count."""
    pairs: list[tuple[int, list[int]]] = field(default_factory=list)
    """Place of the instruction and token ids of the reply, for each reply since the last refresh; a checkpoint has
    it.
    """

    def __post_init__(self) -> None:
        if self.group.shards:
            raise ConfigError(
                "methods.*.anchors.divergence: reverse cannot be trained with distributed.strategy fsdp, because every "
                "process would have to write each reply; ddp and single are allowed, and so is forward"
            )

    def of_step(self, step: int) -> list[tuple[int, list[int]]]:
        """``pairs`` of a step (from 0)."""
        if step % self.steps == 0:
            self.pairs = self.group.shared(self._written(step) if self.group.is_main else None)
        start = step % self.steps * self.sequences_per_step
        return self.pairs[start : start + self.sequences_per_step]

    def _written(self, step: int) -> list[tuple[int, list[int]]]:
        seed, model = self.names
        count, places = self.steps * self.sequences_per_step, []
        for number in range(-(-count // len(self.prompts))):
            rng = random_stream(seed, "on_policy_order", model, step, number)
            places += family_balanced_order(self.kinds, rng)
        places = places[:count]
        self.model.eval()
        stream = generate_prompts(
            self.model,
            self.tokenizer,
            [self.prompts[place] for place in places],
            [[stream_seed(seed, "on_policy", model, step, index)] for index in range(count)],
            stop_ids=self.stop_ids,
            max_new_tokens=self.max_new_tokens,
            temperature=1.0,
            top_p=1.0,
            batch_size=count,
        )
        answers = {place: answer for finished in stream for place, _, answer in finished}
        self.model.train()
        texts = [answers[index].text for index in range(count)]
        ended = [answers[index].finish_reason == "stop" for index in range(count)]
        return list(zip(places, reply_ids(self.tokenizer, texts, ended, self.terminator), strict=True))
