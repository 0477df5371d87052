"""The stages of dvc.yaml, read from that file, with their costs and parts.

``meta`` says there which device a stage needs and which parameters it may read that change no result. Parts of the
stages of all axes are declared in each axis's module ``stages``.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import yaml

from pipeline import PROJECT
from pipeline.axes import axis_modules
from pipeline.dag.declaration import Paths, Row, Stage, flat
from pipeline.dag.stage_kinds import ENGINES, MODEL_REPORT, SHARED_PARTS, TOKENIZER

if TYPE_CHECKING:
    from pipeline.estimates.cost import Cost
    from pipeline.estimates.prices import Prices

CODE_FILE = "code.yaml"
_REFERENCE = re.compile(r"\$\{(?:item\.)?([\w.]+)\}")
COSTS: "dict[str, Callable[[Prices, Row], Cost]]" = {
    "preflight": lambda prices, row: prices.preflight(row["model"]),
    "sample-instructions": lambda prices, row: prices.generation(row["model"], "instructions", row["condition"]),
}
COSTS |= dict.fromkeys(
    ("train-soft", "train-hard", "train-mixed"), lambda prices, row: prices.training(row["model"], row["method"])
)
"""What a run takes, by stage; the others take next to nothing, or what their parts do."""
PART_FIELDS = {"generate-baselines": "baselines", "build-prompts": "build"}
PART_FIELDS |= {name: name for name in ("generate", "score", "judge")}
"""Stages whose work is parts of the axes, and where an axis's ``AxisStages`` has these."""


def _parts(stage: str) -> tuple[Stage, ...]:
    """The parts of a stage, of all axes; what several axes share is there once."""
    if stage not in PART_FIELDS:
        return ()
    axes = [getattr(module.STAGES, PART_FIELDS[stage]) for module in axis_modules("stages").values()]
    return tuple({part.name: part for parts in (SHARED_PARTS.get(stage, ()), *axes) for part in parts}.values())


def _templates(values: Iterable[Any]) -> tuple[str, ...]:
    """Paths or keys of a list in dvc.yaml, ``${item.model}`` written ``{model}``; without options such as persist."""
    names = (next(iter(value)) if isinstance(value, Mapping) else value for value in values)
    return tuple(_REFERENCE.sub(r"{\1}", name) for name in names)


def read_stage(name: str, entry: Mapping[str, Any]) -> Stage:
    """A stage of dvc.yaml.

    An option of its command that takes the row's entry of the same name says which run it is; one with dependencies or
    outputs is a parameter of ``main``; others are the same for all runs. Artifacts that are no options have to be there
    first; other files are found by parameters.
    """
    work = entry.get("do", entry)
    command = _REFERENCE.sub(r"{\1}", work["cmd"])
    module, *words = command.removeprefix("python -m pipeline.").split(" --")
    options = {option.replace("-", "_"): tuple(values) for option, *values in map(str.split, words)}
    inputs, outputs = _templates(work.get("deps", ())), _templates(work.get("outs", ()))
    chosen_by = tuple(o for o, values in options.items() if values == (f"{{{o}}}",) and values[0] not in inputs)
    paths = {o: values for o, values in options.items() if values[0] in (*inputs, *outputs)}
    by_name: dict[str, Paths] = {o: values[0] if len(values) == 1 else values for o, values in paths.items()}
    unnamed = [path for path in inputs if path not in flat(by_name)]
    parameters = tuple(key for key in _templates(work.get("params", ())) if key != CODE_FILE)
    meta, parts = work.get("meta", {}), _parts(name)
    free = _templates(meta.get("may_read", ()))
    free += TOKENIZER if MODEL_REPORT in inputs else ()
    free += ENGINES if "engine.kind" in parameters else ()
    return Stage(
        name=name,
        description=work.get("desc", name),
        module=module.strip(),
        command_template=command,
        over="models" if "matrix" in entry else entry.get("foreach", "").removeprefix("${dag.").removesuffix("}"),
        chosen_by=chosen_by,
        constants={o: values[0] for o, values in options.items() if o not in (*chosen_by, *paths)},
        reads={o: value for o, value in by_name.items() if paths[o][0] in inputs},
        sources=tuple(path for path in unnamed if not path.startswith("{artifacts}")),
        after=tuple(path for path in unnamed if path.startswith("{artifacts}")),
        # The outputs of a stage of parts are these parts' own.
        writes={"written": outputs} if parts else {o: value for o, value in by_name.items() if paths[o][0] in outputs},
        records="".join(path for path in outputs if path.endswith(".provenance.json") and not parts),
        metrics="".join(_templates(work.get("metrics", ()))),
        parameters=parameters,
        free_parameters=free,
        keeps=any(isinstance(output, Mapping) for output in work.get("outs", ())),
        device=meta.get("device", "none"),
        cost=COSTS.get(name),
        parts=parts,
    )


STAGES: dict[str, Stage] = {
    name: read_stage(name, entry)
    for name, entry in yaml.load((PROJECT / "dvc.yaml").read_text(), Loader=yaml.CSafeLoader)["stages"].items()
    if entry.get("do", entry)["cmd"].startswith("python -m pipeline.")
}
"""All stages by name, each behind what it reads; a stage that runs something else is DVC's alone."""
DECLARED: dict[str, Stage] = {**STAGES, **{part.name: part for stage in STAGES.values() for part in stage.parts}}
"""Stages and parts: all that a record may be of."""
PIECES: dict[str, Stage] = {piece.name: piece for stage in STAGES.values() for piece in (stage.parts or (stage,))}
"""All that computes something: stages, and parts in the place of the stages that they are of."""
