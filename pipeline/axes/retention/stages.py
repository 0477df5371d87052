"""What TinyBenchmarks take."""

from pipeline.dag.declaration import Stage
from pipeline.dag.stage_kinds import PARAMS_CHECKED, AxisStages, evaluation, of_all_conditions, scoring, table

ITEM_PARAMETERS = "{artifacts}/retention/irt.npz"
SETTINGS = ("source", "revisions", "tasks", "prompt_format", "max_new_tokens")
STAGES = AxisStages(
    score=(
        scoring(
            "score-retention",
            "Items of the tiny tasks, right or wrong",
            "retention",
            {},
            {"output": table("scores", "retention")},
            tuple(f"retention.{name}" for name in SETTINGS),
            "retention",
            ("retention.tokens_per_pass",),
            ("{dag.retention_source}",),
        ),
    ),
    stages=(
        Stage(
            name="import-irt",
            description="Item parameters of gp-IRT as plain arrays",
            module="axes.retention.import_irt",
            over="axes.retention",
            sources=("{dag.irt_source}",),
            after=(PARAMS_CHECKED,),
            writes={"output": ITEM_PARAMETERS},
            records="{artifacts}/retention/irt.provenance.json",
            parameters=("retention.irt_artifact", "retention.irt_sha256"),
            keeps=False,
        ),
        evaluation(
            "retention",
            "gp-IRT, and what is kept of the base checkpoint",
            {"scores": of_all_conditions("scores", "retention"), "irt": ITEM_PARAMETERS},
            ("retention.gsm8k", "retention.tasks", "tests.significance", "tests.accuracy_margin"),
        ),
    ),
)
