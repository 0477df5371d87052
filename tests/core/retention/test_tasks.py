"""The tables of tasks agree with each other and with the configuration."""

from pipeline.config.retention import TINY_TASKS, WHOLE_TASKS
from pipeline.core.retention.tasks import COLUMNS, HEADLINES, METRICS, TASKS, WHOLE_COLUMNS


def test_every_table_has_every_task():
    assert tuple(TASKS) == tuple(METRICS) == (*TINY_TASKS, *WHOLE_TASKS)
    assert tuple(HEADLINES) == TINY_TASKS
    assert list(WHOLE_COLUMNS.values()) == [("gsm8k", metric) for metric in METRICS["gsm8k"]]
    assert list(dict.fromkeys(task for task, _ in COLUMNS.values())) == list(TINY_TASKS)


def test_headlines_are_metrics_and_columns_are_headlines():
    for task, metrics in HEADLINES.items():
        assert set(metrics) <= set(METRICS[task])
    assert list(COLUMNS.values()) == [(task, metric) for task, metrics in HEADLINES.items() for metric in metrics]
    assert len(COLUMNS) == 6
