"""Prompts whose answers are text: open-ended, multiple-choice and NoveltyBench requests, and general instructions."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TextPrompt:
    """One request for a text.

    Attributes:
        prompt_id: Names the prompt's random streams and rows; unique within its axis.
        split: Split of the benchmark that reports it, e.g. "open", "mcq", "curated", "wildchat"; of an instruction,
            "anchor" or "held_out".
        category: What is asked for (open-ended), the benchmark's topic or an instruction's kind; empty where unknown.
        text: The user message.
    """

    prompt_id: str
    split: str
    category: str
    text: str
