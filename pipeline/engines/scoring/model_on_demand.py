"""A model that is loaded where an answer is to be scored, and not where all scores are at hand."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.params import Params
from pipeline.engines.loading.conditioned_model import ConditionedModel, open_model

if TYPE_CHECKING:
    from pipeline.core.tries.digit_tokens import DigitTokens
    from pipeline.engines.loading.model import PositionLogits
    from pipeline.engines.scoring.tree_scorer import TreeScorer


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
