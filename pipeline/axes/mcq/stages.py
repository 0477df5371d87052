"""What multiple-choice questions take."""

from pipeline.dag.stage_kinds import AxisStages, generation

STAGES = AxisStages(generate=(generation("mcq", "Multiple-choice questions"),))
