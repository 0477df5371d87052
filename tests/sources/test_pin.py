"""Pinning: commits are written into conf/ and nothing else changes; what is unreachable does not spoil the rest."""

import hashlib
import shutil

import pytest
import yaml

from pipeline.compose import compose_params
from pipeline.config.params import validate
from pipeline.errors import ArtifactError, ConfigError, ModelError
from pipeline.sources import repository as hub
from pipeline.sources.pin import HubSource, conf_sources, downloads, is_commit, main, pin, unpinned, write_revision
from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def commit_of(repository):
    return hashlib.sha1(repository.encode()).hexdigest()


@pytest.fixture
def conf(tmp_path):
    return shutil.copytree(ROOT / "conf", tmp_path / "conf")


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


def erase_pins(conf):
    """Whatever is pinned by now, back to null."""
    for source in conf_sources(conf):
        if source.revision is not None:
            path = source.path
            path.write_text(path.read_text().replace(f'"{source.revision}"', "null").replace(source.revision, "null"))


def test_commits_are_written_and_nothing_else_changes(conf, asked):
    erase_pins(conf)
    before = {path: path.read_text() for path in conf.rglob("*.yaml")}
    written = []
    failures = pin(conf, update=False, on_pinned=lambda source, commit: written.append((source, commit)))
    assert len(failures) == 5 and all("tinyBenchmarks/" in failure for failure in failures)
    assert ("Qwen/Qwen3-14B", None, "model") in asked and ("allenai/paloma", None, "dataset") in asked
    assert {source.repository for source, _ in written} >= {
        "openai/gpt-oss-20b",
        "google/gemma-3-27b-it",
        "meta-llama/Llama-3.2-1B-Instruct",
        "yimingzhang/novelty-bench",
        "yimingzhang/deberta-v3-large-generation-similarity",
        "microsoft/deberta-v3-large",
        "Skywork/Skywork-Reward-Gemma-2-27B-v0.2",
        "allenai/paloma",
    }
    for path, text in before.items():
        # Undoing the edits gives the file back, comments, order and flow style included.
        now = path.read_text()
        for source, commit in written:
            if source.path == path:
                now = now.replace(f'"{commit}"', "null", 1)
        assert now == text
    params = paper(conf)
    assert params.models["gemma3_4b"].revision == commit_of("google/gemma-3-4b-it")
    assert params.evaluate.novelty.classifier.tokenizer_revision == commit_of("microsoft/deberta-v3-large")
    assert unpinned(params) == [f"retention.revisions.{task}" for task in params.retention.tasks]


def test_what_is_pinned_stays_unless_updated(conf, asked):
    path = conf / "model" / "qwen3_8b.yaml"
    old = "0" * 39 + "1"
    for source in list(conf_sources(conf)):
        write_revision(source, old)
    assert pin(conf, False, lambda *pinned: None) == [] and not asked
    failures = pin(conf, True, lambda *pinned: None)
    assert yaml.safe_load(path.read_text())["revision"] == commit_of("Qwen/Qwen3-8B")
    # The current commit of the default branch is asked for, not the old commit.
    assert ("Qwen/Qwen3-8B", None, "model") in asked
    assert len(failures) == 5 and all(failure.endswith(f"it stays at {old}") for failure in failures)
    assert set(yaml.safe_load((conf / "retention" / "paper.yaml").read_text())["revisions"].values()) == {
        old,
        commit_of("openai/gsm8k"),
    }


def test_a_branch_is_resolved_to_its_commit(conf, asked):
    path = conf / "model" / "qwen3_8b.yaml"
    source = next(source for source in conf_sources(conf) if source.path == path)
    write_revision(source, "refs/pr/3")
    assert "models.qwen3_8b.revision" in unpinned(paper(conf))
    pin(conf, False, lambda *pinned: None)
    assert ("Qwen/Qwen3-8B", "refs/pr/3", "model") in asked
    assert is_commit(yaml.safe_load(path.read_text())["revision"])


@pytest.mark.parametrize(
    "text, expected",
    [
        ("# why\nrevision: null  # none yet\nnext: 1\n", '# why\nrevision: "{}"  # none yet\nnext: 1\n'),
        ("revision:\nnext: 1\n", 'revision: "{}"\nnext: 1\n'),
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
    with pytest.raises(ConfigError, match="there is no key nowhere"):
        write_revision(HubSource(("nowhere",), "x/y", None, "model", path=path), commit)


def test_command_line(conf, asked, capsys, tmp_path):
    erase_pins(conf)
    nowhere = tmp_path / "params.yaml"
    with pytest.raises(ConfigError, match=r"source\(s\) not pinned to a commit") as raised:
        main(conf, check=True, update=False, params=nowhere)
    assert "qwen3_14b.yaml: revision (Qwen/Qwen3-14B)" in str(raised.value) and not asked
    with pytest.raises(ConfigError, match=r"5 source\(s\) not pinned .*run it again"):
        main(conf, check=False, update=False, params=nowhere)
    assert f"(Qwen/Qwen3-14B): {commit_of('Qwen/Qwen3-14B')}" in capsys.readouterr().out
    for source in list(conf_sources(conf)):
        if not is_commit(source.revision):
            write_revision(source, "a" * 40)
    main(conf, check=True, update=False, params=nowhere)
    assert "is pinned" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="no directory model"):
        main(conf / "model", check=True, update=False, params=nowhere)


def test_what_is_local_needs_no_commit(conf):
    erase_pins(conf)
    assert unpinned(validate(compose_params(conf, []))) == []
    keys = unpinned(paper(conf))
    assert len(keys) == 12 + 1 + 3 + 5 + 1 and "prompts.novelty.revision" in keys
    local = paper(conf, "models.qwen3_8b.checkpoint=models/stand_ins/qwen3")
    assert "models.qwen3_8b.revision" not in unpinned(local)


def test_instructions_of_the_hub_are_pinned_whatever_is_evaluated(conf, asked, tmp_path):
    selected = conf / "prompts" / "selected.yaml"
    selected.write_text(selected.read_text().replace("data/instructions.jsonl", "owner/instructions"))
    params = tmp_path / "params.yaml"
    params.write_text(yaml.safe_dump(compose_params(conf, ["axes=[mcq]"])))
    assert unpinned(validate(yaml.safe_load(params.read_text()))) == ["prompts.instructions.revision"]
    pin(conf, False, lambda *pinned: None, axes=["mcq"])
    # Only the data set of the one prompts group that names it; NoveltyBench's is for an axis that is off.
    assert [call for call in asked if call[2] == "dataset"] == [("owner/instructions", None, "dataset")]
    pinned = validate(compose_params(conf, ["axes=[mcq]"]))
    assert pinned.prompts.instructions.revision == commit_of("owner/instructions") and unpinned(pinned) == []


def test_questions_of_the_hub_and_their_judge_are_pinned_where_they_are_asked(conf):
    judge = "checkpoint:owner/nli,revision:null,dtype:float32,strict:false,max_tokens:64,tokens_per_pass:4096"
    overrides = ["prompts.questions.source=owner/questions", "prompts.questions.split=test"]
    overrides += [f"evaluate.partition.judge={{{judge}}}"]
    asked = ["prompts.questions.revision", "evaluate.partition.judge.revision"]
    for axes, rule, expected in (
        ("credal", "entailment", asked),
        ("human", "aliases", asked[:1]),
        ("mcq", "entailment", []),
    ):
        chosen = [*overrides, f"axes=[{axes}]", f"evaluate.partition.rule={rule}"]
        assert unpinned(validate(compose_params(conf, chosen))) == expected
    with pytest.raises(ConfigError, match="the rule entailment needs a judge, got null"):
        compose_params(conf, ["evaluate.partition.rule=entailment"])


def test_embeddings_of_the_hub_are_pinned_and_fetched_where_texts_are_compared(conf):
    embedding = "{kind:embedding,checkpoint:owner/encoder}"
    key = "evaluate.inverse_entropy.similarity.revision"
    for axis, expected in (("inv_entropy", [key]), ("credal", [])):
        params = validate(compose_params(conf, [f"evaluate.inverse_entropy.similarity={embedding}", f"axes=[{axis}]"]))
        assert [name for name in unpinned(params) if name.endswith("similarity.revision")] == expected
        assert [download.key for download in downloads(params) if download.repository == "owner/encoder"] == expected


def test_what_axes_need_that_are_off_is_left_alone(conf, asked, tmp_path, capsys):
    erase_pins(conf)
    params = tmp_path / "params.yaml"
    params.write_text(yaml.safe_dump(compose_params(conf, ["axes=[open,paloma]"])))
    # tinyBenchmarks cannot be reached, and nobody asks for it.
    main(conf, check=False, update=False, params=params)
    assert (
        "left alone: what only structured, mcq, novelty, retention, anchors, laws, human, semcal, credal, "
        "uncertainty, inv_entropy, selfreflect "
        "would need" in capsys.readouterr().out
    )
    assert {repository for repository, _, kind in asked if kind == "dataset"} == {"allenai/paloma"}
    assert not any("Skywork" in repository or "deberta" in repository for repository, _, _ in asked)
    main(conf, check=True, update=False, params=params)
    assert unpinned(paper(conf, "axes=[open,paloma]")) == []
    assert unpinned(paper(conf, "axes=[open,novelty]")) == [
        "prompts.novelty.revision",
        "evaluate.novelty.classifier.revision",
        "evaluate.novelty.classifier.tokenizer_revision",
        "evaluate.novelty.reward.revision",
    ]
    assert unpinned(paper(conf, "axes=[retention]")) == [
        f"retention.revisions.{task}" for task in paper(conf).retention.tasks
    ]
    params.write_text(yaml.safe_dump({**compose_params(conf, []), "axes": ["paloma", "palmoa"]}))
    with pytest.raises(ConfigError, match=r"params\.yaml: axes: .*there is no axis 'palmoa'"):
        main(conf, check=True, update=False, params=params)


def test_an_unreachable_hub_is_one_sentence(monkeypatch):
    import httpx
    from huggingface_hub import HfApi

    def refuse(self, *arguments, **options):
        raise httpx.ConnectError("[Errno -2] Name or service not known")

    monkeypatch.setattr(HfApi, "model_info", refuse)
    with pytest.raises(ModelError, match="cannot reach the hub for a/b: .*Name or service not known"):
        hub.current_commit("a/b", None, "model")
