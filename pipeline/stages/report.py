"""Tables, figures and the page from whatever evaluations exist; says which cells are missing."""

import argparse
import math
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts import GENERATION_COLUMNS, METRIC_COLUMNS, atomic_entries, read_json, read_prompts, read_table
from pipeline.command import run_stage
from pipeline.config import CONDITIONS, Params, load_params
from pipeline.core.parse import Invalid, parse_sample
from pipeline.core.prompts import Prompt
from pipeline.stages.arguments import stage_parser
from pipeline.tracking import tracked_run


def collect_metrics(evals: Path) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, dict]]:
    """Tidy metrics, invalid generations by reason, and provenance by path, of all evaluations."""
    metrics, invalid, provenance = [], [], {}
    for path in sorted(evals.glob("*/*/*/metrics.json")):
        source = path.with_name("provenance.json")
        content = read_json(path)
        provenance[str(source)] = read_json(source)
        metrics.extend({**row, "provenance": str(source)} for row in content["metrics"])
        _, model, condition = path.parent.parts[-3:]
        invalid.extend(
            {"model": model, "condition": condition, "split": split, "reason": reason, "count": count}
            for split, reasons in content["failures"].items()
            for reason, count in reasons.items()
        )
    frame = pd.DataFrame(metrics, columns=[*METRIC_COLUMNS, "undefined"])
    numbers = ["value", "ci_low", "ci_high", "floor"]
    frame[numbers] = frame[numbers].astype(float)
    return frame, pd.DataFrame(invalid), provenance


def read_samples(generations: Path, models: list[str], prompts: list[Prompt]) -> dict[str, dict]:
    """Valid samples by model, then (condition, prompt_id), of the conditions that were generated."""
    laws = {prompt.prompt_id: prompt for prompt in prompts}
    samples: dict[str, dict] = {}
    for model in models:
        for condition in CONDITIONS:
            path = generations / "structured" / model / f"{condition}.parquet"
            if not path.exists():
                continue
            for prompt_id, rows in read_table(path, GENERATION_COLUMNS).groupby("prompt_id"):
                if prompt_id in laws:
                    law = laws[prompt_id].law
                    parsed = [parse_sample(text, law.support, law.integer) for text in rows["text"]]
                    values = np.array([value for value in parsed if not isinstance(value, Invalid)], dtype=float)
                    samples.setdefault(model, {})[condition, prompt_id] = values
    return samples


def overlay_panels(prompts: list[Prompt]) -> list[Prompt]:
    """One held-out prompt per family: the middle one of its settings."""
    families: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        families.setdefault(prompt.family, []).append(prompt)
    return [members[len(members) // 2] for members in families.values()]


def overlay_models(config: Params, metrics: pd.DataFrame, limit: int = 4) -> dict[str, str]:
    """The model with the lowest OOD W1 of each tokenizer family, best first."""
    chosen = metrics[
        (metrics["split"] == "ood") & (metrics["family"] == "") & (metrics["metric"] == "wasserstein_1_normalised")
    ]
    best = chosen.groupby("model")["value"].min().sort_values()
    picked: dict[str, str] = {}
    for model in best.index:
        if model in config.models:
            picked.setdefault(config.models[model].tokenizer, model)
    return {model: config.models[model].display_name for model in list(picked.values())[:limit]}


def headline(metrics: pd.DataFrame) -> str:
    """One sentence per split: how far each method moves the median W1 over models from base."""
    chosen = metrics[(metrics["family"] == "") & (metrics["metric"] == "wasserstein_1_normalised")]
    sentences = []
    for split, name in (("ood", "held-out families"), ("unseen", "unseen parameters")):
        medians = chosen[chosen["split"] == split].groupby("condition")["value"].median()
        if not medians.empty and "base" in medians and math.isfinite(medians["base"]):
            floor = chosen[chosen["split"] == split]["floor"].median()
            parts = [f"{condition} {medians[condition]:.3f}" for condition in CONDITIONS if condition in medians]
            sentences.append(f"On {name}, normalised W1 is {', '.join(parts)}; a perfect sampler scores {floor:.3f}.")
    return " ".join(sentences) or "No evaluation has been run yet."


def main(params: Path, evals: Path, generations: Path, prompts: list[Path], output: Path) -> None:
    """Write ``metrics.csv``, ``tables/``, ``figures/`` and ``index.html`` into ``output``."""
    from pipeline.report import figures, page, tables

    config = load_params(params)
    metrics, invalid, provenance = collect_metrics(evals)
    names = {name: model.display_name for name, model in config.models.items()}
    views = [
        tables.structured_table(
            "table6", "Table 6. Structured sampling on held-out (OOD) families", metrics, "ood", names
        ),
        tables.structured_table(
            "table7", "Table 7. Structured sampling with unseen parameters", metrics, "unseen", names
        ),
        *(
            tables.structured_table(
                f"exact_{split}",
                f"The exact law beside the sampled figures: {title}",
                metrics,
                split,
                names,
                tables.EXACT,
            )
            for split, title in (("ood", "held-out (OOD) families"), ("unseen", "unseen parameters"))
        ),
    ]
    ood = [prompt for prompt in read_prompts(*prompts) if prompt.split == "ood"]
    panels, shown = overlay_panels(ood), overlay_models(config, metrics)
    pictures = {"figure2": (figures.structured_bars(metrics, names),
                "Figure 2. Family-median normalised W1 with 95% intervals; hatched where undefined.")}  # fmt: skip
    if shown:
        samples = read_samples(generations, list(shown), panels)
        pictures["figure3"] = (figures.sample_overlays(panels, samples, shown),
                               "Figure 3. Held-out laws (black) with samples of each condition.")  # fmt: skip
    with atomic_entries(output) as directory:
        for folder in ("tables", "figures"):
            (directory / folder).mkdir()
        metrics[list(METRIC_COLUMNS)].to_csv(directory / "metrics.csv", index=False)
        for view in views:
            stem = directory / "tables" / view.name
            tables.to_frame(view).to_csv(stem.with_suffix(".csv"), index=False)
            stem.with_suffix(".md").write_text(tables.to_markdown(view))
            stem.with_suffix(".tex").write_text(tables.to_latex(view))
        blocks = []
        for name, (figure, caption) in pictures.items():
            figure.savefig(directory / "figures" / f"{name}.png", dpi=200)
            figure.savefig(directory / "figures" / f"{name}.pdf", metadata={"CreationDate": None})
            blocks.append(page.FigureBlock(name, caption, directory / "figures" / f"{name}.png"))
        text = page.render_page(
            experiment=config.experiment, tables=views, figures=blocks, headline=headline(metrics), invalid=invalid,
            provenance=provenance,
        )  # fmt: skip
        (directory / "index.html").write_text(text)
    _announce(config, metrics, views, output)


def _announce(config: Params, metrics: pd.DataFrame, views: list, output: Path) -> None:
    from pipeline.artifacts import sha256_json
    from pipeline.report import tables

    for view in views:
        print(tables.to_markdown(view))
    missing = sorted({cell for view in views for cell in view.missing})
    if missing:
        print(f"missing evaluations: {', '.join(missing)}")
    print(f"report: {output / 'index.html'}")
    identity = sha256_json([config.experiment, metrics.astype(str).to_dict("records")])
    with tracked_run(
        config.tracking, name=f"report {config.experiment}", group=config.experiment, job_type="report",
        identity=identity, settings={"experiment": config.experiment},
    ) as run:  # fmt: skip
        run.table("metrics", metrics)
        for picture in sorted((output / "figures").glob("*.png")):
            run.image(picture.stem, picture)


def parse_arguments() -> argparse.Namespace:
    """Command line of the stage."""
    parser = stage_parser(__doc__)
    parser.add_argument("--evals", type=Path, required=True, help="directory of evaluations, AXIS/MODEL/CONDITION")
    parser.add_argument("--generations", type=Path, required=True, help="directory of generations")
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument(
        "--output", type=Path, default=Path("reports"), help="directory to write (default: %(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    run_stage(main, parse_arguments())
