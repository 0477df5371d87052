"""TinyBenchmarks and GSM8K: what a fine-tuned model still answers."""

from pipeline.axes.axis import Axis

AXIS = Axis("Retention: TinyBenchmarks", 5)
