"""What the rest of the pipeline knows of an axis; each declares it in the ``__init__`` of its folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Axis:
    """An axis of evaluation."""

    title: str  # heading of its section in the report
    place: int  # among the axes, wherever they are listed
    # Titles of the splits whose headline numbers are reported; "all" is all parts of an axis together.
    splits: Mapping[str, str] = field(default_factory=lambda: {"all": ""})
    sampled_as: str = ""  # section of ``generate`` that models write answers under; empty where they write none for it
    baselines: tuple[str, ...] = ()  # that it has, where they are enabled; they change how base is asked or decoded
    of_questions: bool = False  # of the answers to ``prompts.questions``; evaluated only where it is asked for
    of_people: bool = False  # compares those answers with people's
