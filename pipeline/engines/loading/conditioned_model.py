"""Open a model under a condition: the base checkpoint, or with a trained adapter, and how it is asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.artifacts.model_report import model_revision
from pipeline.config.models import ModelConfig
from pipeline.config.params import Params

if TYPE_CHECKING:
    from pipeline.core.tries.digit_tokens import DigitTokens
    from pipeline.engines.loading.model import PositionLogits
    from pipeline.engines.scoring.tree_scorer import TreeScorer


@dataclass(frozen=True)
class ConditionedModel:
    """A model ready to sample or score.

    Attributes:
        model: In evaluation mode on ``device``, adapter loaded.
        tokenizer: Its tokenizer.
        encode: Request text to token ids.
        encode_messages: Chat messages to token ids; the second argument says whether the model
            is to reason before it answers.
        stop_ids: Tokens that end a generation.
        device: "cuda" or "cpu".
    """

    model: Any
    tokenizer: Any
    encode: Callable[[str], list[int]]
    encode_messages: Callable[[Sequence[Mapping[str, str]], bool], list[int]]
    stop_ids: set[int]
    device: str


def message_encoder(tokenizer: Any, config: ModelConfig) -> Callable[[Sequence[Mapping[str, str]], bool], list[int]]:
    """``ConditionedModel.encode_messages`` of a tokenizer."""
    from pipeline.engines.loading import chat

    options = config.chat

    def encode_messages(messages: Sequence[Mapping[str, str]], reasons: bool) -> list[int]:
        arguments = options.reasoning.template_arguments if reasons else options.template_arguments
        prefix = "" if reasons else options.answer_prefix
        return chat.encode_messages(tokenizer, messages, arguments, prefix, options.add_special_tokens)

    return encode_messages


def request_encoder(tokenizer: Any, config: ModelConfig) -> Callable[[str], list[int]]:
    """``ConditionedModel.encode`` of a tokenizer."""
    encode_messages = message_encoder(tokenizer, config)
    return lambda text: encode_messages([{"role": "user", "content": text}], False)


def open_checkpoint(
    config: ModelConfig, revision: str | None = None, adapter: Path | None = None, probe: str = ""
) -> ConditionedModel:
    """Load a checkpoint, and an adapter into it.

    Args:
        config: The checkpoint.
        revision: Its commit; None for the one that ``config`` names.
        adapter: Directory of the adapter; None for the base checkpoint.
        probe: A request on which the adapter must show.

    Raises:
        ModelError: The checkpoint or the adapter cannot be used.
    """
    from pipeline.engines.loading.model import default_device, load_adapter, load_model, load_tokenizer, stop_ids

    tokenizer, model = load_tokenizer(config, revision), load_model(config, revision)
    stops = stop_ids(model, tokenizer, config.terminator)
    encode = request_encoder(tokenizer, config)
    if adapter is not None:
        model = load_adapter(model, adapter, encode(probe))
    return ConditionedModel(model, tokenizer, encode, message_encoder(tokenizer, config), stops, default_device())


def open_model(config: ModelConfig, report: Path, adapter: Path | None = None, probe: str = "") -> ConditionedModel:
    """``open_checkpoint`` at the revision that was checked; ``report`` is what check_model wrote of the checkpoint."""
    return open_checkpoint(config, model_revision(report), adapter, probe)


class ModelOnDemand:
    """A model that scores answers, loaded when the first of its parts is asked for.

    Args:
        config: All parameters; the digit rule is that of the evaluation's strings.
        model: Name of the checkpoint in them.
        report: What check_model wrote of it.
        adapter: Directory of the adapter; None for the base checkpoint.
        probe: A request on which the adapter must show.
    """

    def __init__(self, config: Params, model: str, report: Path, adapter: Path | None, probe: str):
        self._config, self._num_decimals = config.models[model], config.discretize.eval.num_decimals
        self._report, self._adapter, self._probe = report, adapter, probe

    @cached_property
    def opened(self) -> ConditionedModel:
        """The model. Raises ModelError."""
        return open_model(self._config, self._report, self._adapter, self._probe)

    @cached_property
    def answer_tokens(self) -> "tuple[int, DigitTokens | None]":
        """The token that ends an answer, and the tokenizer's digit rule."""
        from pipeline.engines.loading.digit_rule import answer_tokens

        return answer_tokens(self.opened.tokenizer, self._config.terminator, self._num_decimals)

    @cached_property
    def tree_scorer(self) -> "TreeScorer":
        """Scores of whole tries."""
        from pipeline.engines.scoring.tree_scorer import TreeScorer

        return TreeScorer(self.opened.model)

    @cached_property
    def logits_at(self) -> "PositionLogits":
        """Logits at chosen positions."""
        from pipeline.engines.loading.model import position_logits

        return position_logits(self.opened.model)
