"""Tables 3 to 5 of the paper: training settings, and the families of distributions."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.config.conditions import training_settings
from pipeline.config.params import Params
from pipeline.config.training import TARGETS, TrainConfig
from pipeline.core.laws.families import FAMILIES
from pipeline.core.laws.family import Axis, Family
from pipeline.core.prompts.structured import Prompt
from pipeline.estimates.cost import training_steps_of
from pipeline.report.table import DASH, Table
from pipeline.sources.own_laws import own_prompts

PAPER_SOURCE = "Paper: arXiv:2605.11845, Section 4.1 and Appendix B.1."
PRACTICE = {"none": "ours", "released_code": "the released code's (compat=released_code)"}


def training_prompts(params: Params) -> int:
    """Number of training prompts that the configuration selects, those of laws of one's own included."""
    own, _ = own_prompts(params.laws)
    return sum(_train_prompts(family, params) for family in FAMILIES.values() if family.seen) + len(own)


def _chosen(params: Params) -> Sequence[str]:
    return tuple(FAMILIES) if params.prompts.families is None else params.prompts.families


def _train_prompts(family: Family, params: Params) -> int:
    size = _size(family.train_grid) if family.family_id in _chosen(params) else 0
    most = params.prompts.train_prompts_per_family
    if most is None or not size:
        return size
    return most if params.prompts.train_parameters == "fresh" else min(most, size)


def shared_settings(params: Params) -> Table:
    """Table 3: what the methods share, as configured, beside the paper's values; where they differ, what each has."""
    models = list(params.models.values())
    trained = {name: training_settings(params, name) for name in params.methods}

    def of(shown: Callable[[TrainConfig], str]) -> str:
        return _same({name: shown(train) for name, train in trained.items()})

    def listed(texts: Iterable[str]) -> str:
        return ", ".join(dict.fromkeys(texts))

    def clipped(train: TrainConfig) -> str:
        return "not clipped" if train.max_grad_norm is None else f"at most {train.max_grad_norm:g}"

    decimals = {target: f"{getattr(params.discretize, target).num_decimals}" for target in TARGETS}
    modules = (module.removesuffix("_proj") for model in models for module in model.lora_target_modules)
    rows = [
        ("Training prompts", f"{training_prompts(params):,}", "1,988"),
        ("Decimals of canonical strings", _same(decimals), "5"),
        ("Evaluation target, bins", f"{params.discretize.eval.max_bins:,}", "16,384"),
        ("Update", "LoRA, base frozen", "LoRA, base frozen"),
        ("LoRA rank", of(lambda train: f"{train.lora_rank}"), "16"),
        ("LoRA alpha", of(lambda train: f"{train.lora_alpha:g}"), "32"),
        ("LoRA dropout", of(lambda train: f"{train.lora_dropout:g}"), "0.05"),
        ("LoRA modules", listed(modules), "q, k, v, o"),
        ("Optimiser", "AdamW", "AdamW"),
        ("Peak learning rate", of(lambda train: f"{train.learning_rate:g}"), "0.0002"),
        ("Weight decay", of(lambda train: f"{train.weight_decay:g}"), "0.01"),
        ("Schedule", of(lambda train: f"cosine, {train.warmup_ratio:.0%} warm-up"), "cosine, 3% warm-up"),
        ("Gradient norm", of(clipped), "not clipped"),
        ("Order of families", of(lambda train: train.order), "balanced"),
        ("Examples per step", of(lambda train: f"{train.global_batch_size}"), "32"),
        ("Longest sequence (tokens)", of(lambda train: f"{train.max_length}"), "256"),
        ("Temperature", of(lambda train: f"{train.temperature:g}"), "1"),
        ("Answer ends with", listed(model.terminator for model in models), "eos"),
        ("Base weights", listed(model.dtype for model in models), "bfloat16"),
        ("LoRA weights and optimiser", of(lambda train: train.adapter_dtype), "not stated (bf16 training)"),
        ("Practice where ours differs", PRACTICE[params.compat], DASH),
        ("Processes", f"{params.distributed.num_processes} ({params.distributed.strategy})", "4 (fsdp)"),
        ("Seed of training", f"{params.train_seed}", DASH),
        ("Seed of sampling", f"{params.sampling_seed}", DASH),
        ("Seed of all else", f"{params.seed}", DASH),
    ]
    frame = pd.DataFrame(rows, columns=["Setting", "Here", "Paper"])
    return _settings("table3", "Table 3. Training and data settings of both methods", frame)


def method_settings(params: Params) -> Table | None:
    """Table 4: what differs between soft and hard where they are configured, beside the paper's values."""
    shown = [name for name in TARGETS if name in params.methods and name in params.methods[name].targets]
    if not shown:
        return None
    trained = {name: training_settings(params, name) if name in shown else params.train for name in TARGETS}
    soft, hard, prompts = trained["soft"].soft, trained["hard"].hard, training_prompts(params)
    bins = [
        "all decimals" if space.max_bins is None else f"{space.max_bins:,}"
        for space in (params.discretize.soft, params.discretize.hard)
    ]
    per_example = hard.samples_per_prompt // hard.completions_per_prompt
    steps = [
        f"{training_steps_of(prompts, examples, method.epochs, trained[name].global_batch_size):,}"
        for name, method, examples in (("soft", soft, soft.samples_per_prompt), ("hard", hard, per_example))
    ]
    paths = f"{prompts * soft.epochs * soft.samples_per_prompt * soft.paths_per_prompt:,}"
    strings = f"{prompts * hard.epochs * hard.samples_per_prompt:,}"
    laws, tokens = "next-token law at each prefix", "tokens of a string, then strings"
    theirs = "all tokens of a minibatch (Algorithm 2)"
    means = {"token": "all tokens of a step", "completion": tokens, "position": tokens, "mass": "all tokens of a step"}
    rows = [
        ("Supervision", laws, "sampled strings", laws, "sampled strings"),
        ("Loss", "KL over the trie (Eq. 3)", "cross-entropy of strings (Eq. 4)", "Eq. 3", "Eq. 4"),
        ("Mean over", means[soft.prefix_weights], means[hard.loss_reduction], tokens, theirs),
        ("Bins at most", *bins, "1,001", "16,384"),
        ("Epochs", f"{soft.epochs}", f"{hard.epochs}", "3", "2"),
        ("Examples per prompt and epoch", f"{soft.samples_per_prompt}", f"{per_example}", "1", "16"),
        ("Strings per example", f"{soft.paths_per_prompt}", f"{hard.completions_per_prompt}", "1", "1"),
        ("Optimiser steps", *steps, "189", "1,988"),
        ("A100 hours of 12 models", DASH, DASH, "2.6", "26.7"),
        ("Minutes of a model on 4 A100s", DASH, DASH, "0.7 to 14.9, median 1.8", "6.5 to 154.9, median 18.3"),
        ("Supervised strings", paths, strings, "5,964", "63,616"),
    ]
    frame = pd.DataFrame(rows, columns=["Setting", "Soft", "Hard", "Soft, paper", "Hard, paper"])
    titles = [name.capitalize() for name in shown]
    frame = frame[["Setting", *titles, *(f"{title}, paper" for title in titles)]]
    return _settings("table4", "Table 4. Training settings by method", frame)


def _settings(name: str, caption: str, frame: pd.DataFrame) -> Table:
    rows = list(frame.itertuples(index=False, name=None))
    return Table(name, caption, list(frame), rows, 1, frame, f"Here: from params.yaml. {PAPER_SOURCE}")


def _same(values: Mapping[str, str]) -> str:
    """One text where all agree, else each with those that have it in brackets."""
    distinct = list(dict.fromkeys(values.values()))
    if len(distinct) == 1:
        return distinct[0]
    return ", ".join(f"{each} ({', '.join(name for name in values if values[name] == each)})" for each in distinct)


def _size(grid: Sequence[Axis]) -> int:
    """Points of a grid, the product of its parameters' values; 0 without parameters."""
    return math.prod(len(parameter.values) for parameter in grid) if grid else 0


def unseen_place(params: Params) -> str:
    """Where the unseen parameters lie: "inside" or, as all of the paper's, "outside" the ranges that are trained on."""
    return "inside" if params.prompts.unseen_selection == "interpolated" else "outside"


def family_table(params: Params, prompts: Sequence[Prompt]) -> Table | None:
    """Table 5: every family with its parameters, grids, and prompts of this run; None where none is chosen."""
    if not _chosen(params):
        return None
    counts = Counter((prompt.split, prompt.family) for prompt in prompts)
    frame = pd.DataFrame([_family_record(family, params, counts) for family in FAMILIES.values()])
    titles = {
        "display_name": "Family",
        "scipy_name": "SciPy name",
        "tier": "Tier",
        "role": "Role",
        "parameters": "Parameters",
        "train_grid": "Training grid",
        "test_points": "Selected test points",
    }
    trained = frame["train_prompts"].astype(str) + " of " + frame["train_grid_points"].astype(str)
    shown = frame[list(titles)].rename(columns=titles)
    shown["Training prompts"] = trained.where(frame["role"] != "held out", DASH)
    shown["Test prompts"] = frame["test_prompts"].astype(str) + " of " + frame["test_grid_points"].astype(str)
    return Table(
        "table5",
        "Table 5. Families of distributions",
        list(shown),
        shown.to_numpy().tolist(),
        4,
        frame,
        f"{frame['train_prompts'].sum():,} training and {frame['test_prompts'].sum()} test prompts here. Held out: no "
        "parameters of the family are trained on. Grids in the prompt's parameters, or in the fields that they are "
        "made from (width, mode_fraction, success_fraction). Prompts: of this run, of all points of the grid. Source "
        "of families and grids: arXiv:2605.11845, Table 5.",
    )


def _family_record(family: Family, params: Params, counts: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    """A family's row of the table's file; ``counts`` are evaluated prompts by split and family."""
    interpolated = family.seen and unseen_place(params) == "inside"
    points = family.grid_points("test", "interpolated") if interpolated else family.selected
    written = [f"({', '.join(f'{name}={value:g}' for name, value in point.items())})" for point in points]
    between = math.prod(len(axis.midpoints()) for axis in family.train_grid)
    return {
        "family": family.family_id,
        "display_name": family.display_name,
        "scipy_name": family.law_at(next(family.grid_points("test", "selected"))).scipy_name,
        "tier": family.tier,
        "role": "seen" if family.seen else "held out",
        "parameters": ", ".join(parameter.name for parameter in family.parameters),
        "train_grid": _grid(family.train_grid) or DASH,
        "test_points": "; ".join(written),
        "train_grid_points": _size(family.train_grid),
        "test_grid_points": between if interpolated else _size(family.test_grid),
        "train_prompts": _train_prompts(family, params),
        "test_prompts": counts["unseen" if family.seen else "ood", family.family_id],
    }


def _grid(grid: Sequence[Axis]) -> str:
    parts = []
    for axis in grid:
        spacing = {"linear": ", linear", "log": ", logarithmic"}.get(axis.spacing, " listed")
        parts.append(f"{axis.name} {axis.values[0]:g} to {axis.values[-1]:g} ({len(axis.values)}{spacing})")
    return "; ".join(parts)


def settings_tables(params: Params, prompts: Sequence[Prompt]) -> list[Table]:
    """Tables 3 to 5."""
    tables = (shared_settings(params), method_settings(params), family_table(params, prompts))
    return [table for table in tables if table is not None]
