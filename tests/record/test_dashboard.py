"""The workspace as code: what is sent to the server, and that it shows names which the pipeline logs."""

import sys

import pytest

from pipeline.axes import AXES
from pipeline.errors import ConfigError
from pipeline.record import dashboard
from tests.wandb_server import wandb_server


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch, tmp_path):
    import wandb

    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_ENTITY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    wandb.teardown()
    yield
    wandb.teardown()


@pytest.mark.parametrize("entity", ["a-team", None])
def test_the_saved_workspace(monkeypatch, tiny_params, capsys, entity):
    with wandb_server() as server:
        monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        if entity:
            monkeypatch.setenv("WANDB_ENTITY", entity)
        dashboard.main(tiny_params)
    (view,) = server.views
    assert view["entityName"] == (entity or "someone") and view["type"] == "project-view"
    assert f"{server.url}/{entity or 'someone'}/" in capsys.readouterr().out
    section = view["spec"]["section"]
    groups = [(group["section"], group["name"]) for group in section["runSets"][0]["grouping"]]
    assert groups == [("run", "group"), ("config", "model.value"), ("config", "condition.value")]
    sections = {item["name"]: item["panels"] for item in section["panelBankConfig"]["sections"]}
    for axis, metrics in dashboard.METRICS.items():
        # A bar for each condition, as evaluations log them; baselines where they exist.
        conditions = ["base", "soft", "hard", *(["ssot"] if axis in ("structured", "open") else [])]
        shown = [panel["config"]["metrics"] for panel in sections[AXES[axis].title]]
        assert shown == [[f"{condition}/{metric}" for condition in conditions] for metric in metrics]
    assert [panel["config"]["metrics"] for panel in sections["Training"]] == [[x] for x in dashboard.TRAINING_CURVES]
    assert all(panel["viewType"] == "Media Browser" for panel in sections["Report"])


def test_what_is_missing_is_said(monkeypatch, tiny_params):
    monkeypatch.setenv("WANDB_ENTITY", "a-team")
    with pytest.raises(ConfigError, match="WANDB_API_KEY"):
        dashboard.main(tiny_params)
    monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
    with wandb_server() as server:
        server.refuses = True
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        with pytest.raises(ConfigError, match="was not saved"):
            dashboard.main(tiny_params)
    monkeypatch.setitem(sys.modules, "wandb_workspaces.workspaces", None)
    with pytest.raises(ConfigError, match="requirements.txt"):
        dashboard.main(tiny_params)
