"""TinyBenchmarks and GSM8K: what a fine-tuned model still answers."""

from pipeline.axes.axis import Axis

AXIS = Axis(
    title="Retention: TinyBenchmarks",
    place=5,
)
