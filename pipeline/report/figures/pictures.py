"""Which figures a report has, of which models and prompts: what is to be drawn, before it is drawn."""

from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.config.params import CONDITIONS, Params
from pipeline.core.prompts.structured import Prompt
from pipeline.report.evaluations import Evaluations
from pipeline.report.figures import families as family_figures
from pipeline.report.figures import method as method_figure
from pipeline.report.figures import retention as retention_figures
from pipeline.report.figures import structured as figures
from pipeline.report.figures import transfer as transfer_figures
from pipeline.report.figures.choices import best_ssot_model, overlay_models, overlay_panels
from pipeline.report.figures.drawing import Drawing
from pipeline.report.tables.retention import WITHOUT_BOS
from pipeline.report.tables.retention_lists import one_variant

Pictures = dict[str, Drawing]
"""What is drawn, by file name without suffix."""
SSOT_CONDITIONS = ("base", "ssot", "soft")
_MARGIN = "Grey: the margin within which a difference counts as none. White: the tests cannot tell."


def method_pictures(seed: int) -> Pictures:
    """Figure 1."""
    prompt = method_figure.example_prompt()
    caption = method_figure.CAPTION.format(bins=method_figure.MAX_BINS)
    return {"figure1": Drawing(method_figure.method_figure, (prompt, seed), caption)}


def structured_pictures(config: Params, evaluations: Evaluations, prompts: Sequence[Prompt]) -> Pictures:
    """Figures 2 to 8 of what was evaluated.

    Args:
        config: The parameters.
        evaluations: What there is.
        prompts: Prompts of the evaluated splits.
    """
    metrics = evaluations.metrics
    names = {name: model.display_name for name, model in config.models.items()}
    if not (metrics["axis"] == "structured").any():
        return {}
    pictures = {
        "figure2": Drawing(
            figures.structured_bars,
            (_structured(metrics), names),
            "Figure 2. Family-median normalised W1 with 95% intervals; hatched where undefined.",
        ),
        **_overlays(config, evaluations, [prompt for prompt in prompts if prompt.split == "ood"], names),
    }
    for name, (metric, split, title) in family_figures.FIGURES.items():
        floor = family_figures.FLOOR_CAPTION if metric == "wasserstein_1_normalised" else ""
        rows = family_figures.family_rows(metrics, metric, split)
        pictures[name] = Drawing(
            family_figures.family_panels,
            (rows, names, metric, split, prompts),
            f"{title}. {family_figures.CAPTION}{floor}",
        )
    return dict(sorted(pictures.items()))


def _structured(metrics: pd.DataFrame) -> pd.DataFrame:
    """Aggregates of structured sampling: all that Figure 2 needs, and little to send to another process."""
    return metrics[(metrics["axis"] == "structured") & (metrics["family"] == "")]


def _overlays(config: Params, evaluations: Evaluations, ood: Sequence[Prompt], names: Mapping[str, str]) -> Pictures:
    """Figures 3 and 8, where there are samples."""
    metrics = evaluations.metrics
    tokenizers = {name: model.tokenizer for name, model in config.models.items()}
    pictures = {}
    panels = overlay_panels(ood)
    samples = evaluations.samples(overlay_models(tokenizers, metrics), CONDITIONS)
    if samples and panels:
        pictures["figure3"] = Drawing(
            figures.sample_overlays,
            (panels, samples, {model: names[model] for model in samples}, CONDITIONS),
            "Figure 3. Held-out laws (black) with samples of each condition.",
        )
    model = best_ssot_model(list(names), metrics)
    samples = evaluations.samples([model] if model else [], SSOT_CONDITIONS)
    if samples and panels:
        pictures["figure8"] = Drawing(
            figures.sample_overlays,
            (panels, samples, {model: names[model]}, SSOT_CONDITIONS),
            f"Figure 8. Held-out laws (black) with samples of base, String Seed of Thought (ssot) and soft: "
            f"{names[model]}, the model with the lowest W1 under ssot.",
        )
    return pictures


def open_pictures(config: Params, evaluations: Evaluations) -> Pictures:
    """Figures 9 and 10 and the support curve, where their tables exist."""
    names = {name: model.display_name for name, model in config.models.items()}
    tokenizers = {name: model.tokenizer for name, model in config.models.items()}
    pictures: Pictures = {}
    columns = ("prompt_id", *transfer_figures.COMPARED_COLUMNS)
    per_prompt = evaluations.stacked("open", "per_prompt", columns, list(names), CONDITIONS)
    if len(per_prompt):
        pictures["figure9"] = Drawing(
            transfer_figures.prompt_scatter,
            (per_prompt, names, tokenizers),
            "Figure 9. Each point is one prompt and model: base against a fine-tuned condition. Colour: model family. "
            "Dotted: no change; titles count the points strictly above it.",
        )
    strong = _strong_models(evaluations, tokenizers)
    answers = evaluations.stacked("open", "answers", ("category", "answer", "count"), strong, CONDITIONS)
    if len(answers):
        pictures["figure10"] = Drawing(
            transfer_figures.answer_bars,
            (answers, {model: names[model] for model in strong}),
            "Figure 10. Frequencies of answers, for one strong model per family. Shown are the first 15 of the ten "
            "most frequent answers of each condition, by their highest, then total share.",
        )
    support = evaluations.stacked(
        "open", "support", ("prompt_id", "threshold", "support_size"), list(names), CONDITIONS
    )
    if len(support):
        present = {model: names[model] for model in names if (support["model"] == model).any()}
        pictures["support_curve"] = Drawing(
            transfer_figures.support_curve,
            (support, present),
            "Support size: the least number of first-step tokens that hold a probability. Median over prompts, with "
            "the range of the middle half. Dotted: 0.9, the threshold of Table 1 and Figure 9.",
        )
    return pictures


def _strong_models(evaluations: Evaluations, tokenizers: Mapping[str, str]) -> list[str]:
    """One model with open-ended evaluations per family: the lowest OOD W1, or the first where it was not evaluated."""
    metrics = evaluations.metrics
    evaluated = set(metrics.loc[metrics["axis"] == "open", "model"])
    ranked = overlay_models({model: name for model, name in tokenizers.items() if model in evaluated}, metrics)
    found = {tokenizers[model] for model in ranked}
    for model in (model for model in tokenizers if model in evaluated):
        if tokenizers[model] not in found:
            found.add(tokenizers[model])
            ranked.append(model)
    return ranked


def retention_pictures(config: Params, metrics: pd.DataFrame, tests: pd.DataFrame) -> Pictures:
    """Figure 11 and the paired differences by task; drawn where they exist."""
    names = {name: model.display_name for name, model in config.models.items()}
    own = metrics[metrics["axis"] == "retention"]
    return {
        "figure11": Drawing(
            retention_figures.task_bars,
            (own, names),
            "Figure 11. gp-IRT by task with 95% bootstrap intervals over items. The intervals are of each condition "
            "alone; whether conditions differ is in the paired tests.",
        ),
        "retention_differences": Drawing(
            retention_figures.difference_points,
            (tests, names, "score, fine-tuned − base"),
            f"Paired differences from base by task, with 95% intervals. {_MARGIN}",
        ),
    }


def paloma_pictures(config: Params, metrics: pd.DataFrame, tests: pd.DataFrame) -> Pictures:
    """Figures 12 and 13, each also without BOS, and the paired differences by slice; drawn where they exist."""
    names = {name: model.display_name for name, model in config.models.items()}
    own = metrics[metrics["axis"] == "paloma"]
    pictures: Pictures = {}
    for number, metric, title in ((12, "perplexity", "perplexity"), (13, "bits_per_byte", "bits per byte")):
        for suffix, variant in (("", ""), (WITHOUT_BOS, ", documents without the model's BOS token")):
            pictures[f"figure{number}{suffix}"] = Drawing(
                retention_figures.slice_points,
                (own, names, metric + suffix),
                f"Figure {number}. PALOMA {title} by slice{variant}, with 95% bootstrap intervals over documents. "
                "Lower is better; each panel has its own axis.",
            )
    pictures["paloma_differences"] = Drawing(
        retention_figures.difference_points,
        (one_variant(tests), names, "bits per byte, fine-tuned − base"),
        f"Paired differences from base by slice, with 95% intervals; below 0 is better. {_MARGIN}",
    )
    return pictures
