"""Tables of generations, and the answers in them."""

import pandas as pd

from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.protocols import AnswerProtocol

SETTING_COLUMN = "setting"
"""Name of the decoding setting, in tables of answers to questions."""
GENERATION_COLUMNS = ("prompt_id", "sample_index", "seed", "text", "num_tokens", "finish_reason")


def read_answers(protocol: AnswerProtocol, generations: pd.DataFrame) -> list[str | Invalid]:
    """The answer in each generation, or why there is none, in the table's order."""
    return list(map(protocol.answer, generations["text"]))
