"""What the axes of questions share: prompt sets, classes of answers, people against people."""

from functools import partial

from pipeline.axes.metric import Metric

question_metric = partial(Metric, n="questions", undefined="questions", decimals=3)
WRONG = "P(larger on a question answered wrongly than rightly), ties half; undefined with fewer than ten of either."
