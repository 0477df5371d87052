"""Prompts whose answers are text: open-ended, multiple-choice and NoveltyBench requests, and general instructions."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TextPrompt:
    """One request for a text.

    ``prompt_id`` names the prompt's random streams and rows and is unique within its axis; ``category`` is what is
    asked for (open-ended), the benchmark's topic or an instruction's kind, empty where unknown.
    """

    prompt_id: str
    split: str
    category: str
    text: str
