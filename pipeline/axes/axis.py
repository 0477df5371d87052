"""What the rest of the pipeline knows of an axis; each declares it in the ``__init__`` of its folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Axis:
    """An axis of evaluation.

    Attributes:
        title: Heading of its section in the report.
        place: Its place among the axes, in reports and wherever they are listed.
        splits: Titles of the splits whose headline numbers are reported; "all" is all parts of an axis together.
        sampled_as: The section of ``generate`` that models write answers under; empty where they write none for it.
        baselines: Baselines that it has, where they are enabled; they change how base is asked or decoded.
        of_questions: Whether it evaluates the answers to ``prompts.questions``. No experiment has such an axis unless
            it asks for it.
        of_people: Whether it compares those answers with people's.
    """

    title: str
    place: int
    splits: Mapping[str, str] = field(default_factory=lambda: {"all": ""})
    sampled_as: str = ""
    baselines: tuple[str, ...] = ()
    of_questions: bool = False
    of_people: bool = False
