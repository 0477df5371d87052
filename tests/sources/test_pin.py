"""Pinning: commits are written into conf/ and nothing else changes; what is unreachable does not spoil the rest."""

import hashlib
import shutil

import pytest
import yaml

from pipeline.compose import compose_params
from pipeline.config.params import validate
from pipeline.errors import ArtifactError, ConfigError, ModelError
from pipeline.sources import repository as hub
from pipeline.sources.pin import HubSource, conf_sources, downloads, main, unpinned, write_revision
from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def commit_of(repository):
    return hashlib.sha1(repository.encode()).hexdigest()


@pytest.fixture
def conf(tmp_path):
    """A copy of conf/ in which nothing is pinned."""
    conf = shutil.copytree(ROOT / "conf", tmp_path / "conf")
    for source in conf_sources(conf):
        if source.revision is not None:
            path = source.path
            path.write_text(path.read_text().replace(f'"{source.revision}"', "null").replace(source.revision, "null"))
    return conf


@pytest.fixture
def asked(monkeypatch):
    """A hub that knows every repository but those of tinyBenchmarks; the calls it got."""
    calls = []

    def current_commit(repository, revision, kind):
        calls.append((repository, revision, kind))
        if repository.startswith("tinyBenchmarks/"):
            raise ArtifactError(f"cannot reach the hub for the data set {repository}: offline")
        return commit_of(repository)

    monkeypatch.setattr(hub, "current_commit", current_commit)
    return calls


def paper(conf, *overrides):
    return validate(compose_params(conf, ["experiment=paper", *overrides]))


def test_commits_are_written_and_nothing_else_changes(conf, asked, tmp_path, capsys):
    before = {path: path.read_text() for path in conf.rglob("*.yaml")}
    with pytest.raises(ConfigError, match=r"5 source\(s\) not pinned .*run it again for the rest\):") as failed:
        main(conf, update=False, params=tmp_path / "params.yaml")
    assert str(failed.value).count("tinyBenchmarks/") == 10
    assert f"(Qwen/Qwen3-14B): {commit_of('Qwen/Qwen3-14B')}" in capsys.readouterr().out
    assert ("Qwen/Qwen3-14B", None, "model") in asked and ("allenai/paloma", None, "dataset") in asked
    written = {commit_of(repository) for repository, *_ in asked}
    for path, text in before.items():
        # Undoing the edits gives the file back, comments, order and flow style included.
        now = path.read_text()
        for commit in written:
            now = now.replace(f'"{commit}"', "null")
        assert now == text
    params = paper(conf)
    assert params.models["gemma3_4b"].revision == commit_of("google/gemma-3-4b-it")
    assert params.evaluate.novelty.classifier.tokenizer_revision == commit_of("microsoft/deberta-v3-large")
    tiny = [task for task in params.retention.tasks if task != "gsm8k"]
    assert unpinned(params) == [f"retention.revisions.{task}" for task in tiny]


def test_what_is_pinned_stays_unless_updated_and_a_branch_is_resolved(conf, asked, tmp_path):
    path, old, params = conf / "model" / "qwen3_8b.yaml", "0" * 39 + "1", tmp_path / "params.yaml"
    for source in list(conf_sources(conf)):
        write_revision(source, "refs/pr/3" if source.path == path else old)
    assert unpinned(paper(conf)) == ["models.qwen3_8b.revision"]
    main(conf, update=False, params=params)
    assert asked == [("Qwen/Qwen3-8B", "refs/pr/3", "model")]
    with pytest.raises(ConfigError, match=f"it stays at {old}"):
        main(conf, update=True, params=params)
    assert yaml.safe_load(path.read_text())["revision"] == commit_of("Qwen/Qwen3-8B")
    # The current commit of the default branch is asked for, not the old commit.
    assert ("Qwen/Qwen3-8B", None, "model") in asked


@pytest.mark.parametrize(
    "text, expected",
    [
        ("# why\nrevision: null  # none yet\nnext: 1\n", '# why\nrevision: "{}"  # none yet\nnext: 1\n'),
        ("a: {checkpoint: x/y, revision: null}\n", 'a: {{checkpoint: x/y, revision: "{}"}}\n'),
        ("a: {revision: 'main', b: [1, 2]} # é\n", 'a: {{revision: "{}", b: [1, 2]}} # é\n'),
    ],
)
def test_edits(tmp_path, text, expected):
    path = tmp_path / "file.yaml"
    path.write_text(text)
    # Only digits and one e: a number, if it were not quoted.
    commit = "1" * 20 + "e" + "2" * 19
    keys = ("a", "revision") if text.startswith("a:") else ("revision",)
    write_revision(HubSource(keys, "x/y", None, "model", path=path), commit)
    assert path.read_text() == expected.format(commit)


QUESTIONS = ["prompts.questions.source=owner/questions", "prompts.questions.split=test"]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["axes=[open,paloma]"], ["paloma.revision"]),
        (["axes=[credal]", *QUESTIONS], ["prompts.questions.revision"]),
        (["axes=[mcq]", *QUESTIONS], []),
        (["axes=[mcq]", "prompts.instructions.source=owner/instructions"], ["prompts.instructions.revision"]),
    ],
)
def test_what_axes_need_that_are_off_is_left_alone(conf, overrides, expected):
    found = unpinned(paper(conf, *overrides))
    assert sorted(key for key in found if not key.startswith("models.")) == sorted(expected)


def test_what_is_local_needs_no_commit(conf):
    assert unpinned(validate(compose_params(conf, []))) == []
    assert len(unpinned(paper(conf))) == 12 + 1 + 3 + 6 + 1
    local = paper(conf, "models.qwen3_8b.checkpoint=models/stand_ins/qwen3")
    assert "models.qwen3_8b.revision" not in unpinned(local)
    assert not any(source.repository.startswith("models/") for source in downloads(local))


def test_an_unreachable_hub_is_one_sentence(monkeypatch):
    import httpx
    from huggingface_hub import HfApi

    def refuse(self, *arguments, **options):
        raise httpx.ConnectError("[Errno -2] Name or service not known")

    monkeypatch.setattr(HfApi, "model_info", refuse)
    with pytest.raises(ModelError, match="cannot reach the hub for a/b: .*Name or service not known"):
        hub.current_commit("a/b", None, "model")
