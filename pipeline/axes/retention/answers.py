"""How long generated answers are, and whether they show a derivation (arXiv:2605.11845, Section 6: training on short
completions moves models to shorter answers without reasoning)."""

import re

from pipeline.core.statistics.summarise import mean_of, share_of

STATISTICS = {"answer_tokens_mean": mean_of("num_tokens"), "answer_derivation_share": share_of("derivation")}
ANNOTATION = re.compile(r"<<[^<>\n]*=[^<>\n]*>>")
TOKEN = re.compile(r"\d[\d,]*(?:\.\d+)?|\\times|\\cdot|\\div|[^\W\d_]+|\n|\S")
OPERATORS = frozenset("+-−–*/×·÷xX") | {"\\times", "\\cdot", "\\div"}
SIGNS, UNREAD = frozenset("-−"), frozenset("()[]{}$€£%\\")
UNIT_WORDS = 2
"""Most words behind a number of an equation, its unit ("9 duck eggs * 2")."""


def has_derivation(text: str) -> bool:
    """Whether an answer shows a step of arithmetic: a calculator annotation of GSM8K (``<<16-3=13>>``), or an equation
    of two numbers or more with an operator between them and the number that they make (``9 eggs * $2 = $18``).
    """
    if ANNOTATION.search(text):
        return True
    operands, words, last = 0, 0, ""
    for token in TOKEN.findall(text.replace("**", "")):
        if token in UNREAD or (token in SIGNS and last in ("operator", "equals")):
            continue
        if token[0].isdecimal():
            if last == "equals":
                return True
            operands, words, last = operands + 1 if last == "operator" else 1, 0, "number"
        elif token in OPERATORS and last == "number":
            last = "operator"
        elif token == "=" and last == "number" and operands > 1:
            last = "equals"
        elif token.isalpha() and last == "number" and words < UNIT_WORDS:
            words += 1
        else:
            operands, last = 0, ""
    return False
