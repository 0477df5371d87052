"""A qualitative NoveltyBench case as CSV (full texts), Markdown, LaTeX and HTML (shortened ones)."""

import html
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from pipeline.report.tables.escaping import escape_latex, escape_markdown, shorten
from pipeline.report.tables.latex_layout import latex_caption
from pipeline.report.tables.novelty_cases import CaseTable, Response
from pipeline.report.tables.table_text import markdown_table

RESPONSE_LIMIT = 160
PROMPT_LIMIT = 400


def case_note(case: CaseTable) -> str:
    """What the columns and brackets are."""
    return (
        "Per condition: Distinct / Utility of the prompt, then the responses that stand for its best-rated classes "
        "(at most five), each with the class's rating. Chosen by that difference among the curated prompts: an "
        f"example, no average; Table 10 has the means. Longer texts are cut here; {case.name}.csv has them whole."
    )


def case_frame(case: CaseTable, provenance: Mapping[str, str]) -> pd.DataFrame:
    """Full texts: one row per condition and shown class, with the provenance file of the condition's evaluation."""
    rows = []
    for condition, result in case.results.items():
        for rank, response in enumerate(result.responses, start=1):
            rows.append(
                {
                    "model": case.model,
                    "display_name": case.display_name,
                    "category": case.category,
                    "prompt": case.prompt,
                    "delta_name": case.regime.delta_name,
                    "delta": case.delta,
                    "regime_holds": case.holds,
                    "stand_in_evaluators": case.stand_in,
                    "condition": condition,
                    "distinct": result.distinct,
                    "utility": result.utility,
                    "rank": rank,
                    "representative": response.text,
                    "class_size": response.size,
                    "rating": response.rating,
                    "reward": response.reward,
                    "provenance": provenance.get(condition, ""),
                }
            )
    return pd.DataFrame(rows)


def _headers(case: CaseTable) -> list[str]:
    return [f"{name} ({result.distinct:.0f} / {result.utility:.2f})" for name, result in case.results.items()]


def _lines(case: CaseTable) -> list[list[Response | None]]:
    """Responses by rank, then condition; None where a condition has fewer classes."""
    depth = max(len(result.responses) for result in case.results.values())
    return [
        [result.responses[rank] if rank < len(result.responses) else None for result in case.results.values()]
        for rank in range(depth)
    ]


def _short(response: Response) -> str:
    """The cut text; an empty response is said to be empty, it would look like no response."""
    return shorten(response.text, RESPONSE_LIMIT) or "(empty response)"


def case_markdown(case: CaseTable) -> str:
    """A Markdown table with one column per condition."""
    rows = [
        ["" if cell is None else f"{escape_markdown(_short(cell))} ({cell.rating:g})" for cell in line]
        for line in _lines(case)
    ]
    prompt = escape_markdown(shorten(case.prompt, PROMPT_LIMIT))
    caption = escape_markdown(case.caption)
    return f"{caption}\n\nPrompt: {prompt}\n\n{markdown_table(_headers(case), rows)}\n\n{case_note(case)}\n"


def case_latex(case: CaseTable) -> str:
    """A booktabs table with one column of text per condition."""
    width = rf"\dimexpr{1 / len(case.results):.4f}\linewidth-2\tabcolsep\relax"
    number, caption = latex_caption(f"{case.caption}. Prompt: {shorten(case.prompt, PROMPT_LIMIT)}")
    lines = [r"\begin{table}", *number, r"\centering\footnotesize", caption]
    lines.append(rf"\label{{tab:{case.name}}}")
    columns = rf"p{{{width}}}" * len(case.results)
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(escape_latex(header.capitalize()) for header in _headers(case)) + r" \\", r"\midrule"]
    for line in _lines(case):
        cells = ["" if cell is None else f"{escape_latex(_short(cell))} ({cell.rating:g})" for cell in line]
        lines.append(" & ".join(cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", rf"\par\smallskip {escape_latex(case_note(case))}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def case_html(case: CaseTable) -> str:
    """An HTML table with one column per condition."""
    head = "".join(f"<th class='text'>{html.escape(header)}</th>" for header in _headers(case))
    body = []
    for line in _lines(case):
        cells = [
            "<td></td>"
            if cell is None
            else f"<td class='text'>{html.escape(_short(cell))}<small>rated {cell.rating:g}; {cell.size} in the "
            "class</small></td>"
            for cell in line
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    prompt = html.escape(shorten(case.prompt, PROMPT_LIMIT))
    return (
        f"<p>Prompt: {prompt}</p><table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        f"<p class='note'>{html.escape(case_note(case))}</p>"
    )


def write_case_texts(case: CaseTable, directory: Path, provenance: Mapping[str, str]) -> None:
    """Write ``NAME.csv``, ``NAME.md`` and ``NAME.tex`` into a directory.

    Args:
        case: The case.
        directory: Where to write.
        provenance: Provenance file of the evaluation by condition.
    """
    case_frame(case, provenance).to_csv(directory / f"{case.name}.csv", index=False, encoding="utf-8")
    (directory / f"{case.name}.md").write_text(case_markdown(case), encoding="utf-8")
    (directory / f"{case.name}.tex").write_text(case_latex(case), encoding="utf-8")
