"""What DVC would run again after an edit of the code, against a walk over compiled code."""

import ast
import contextlib
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from dvc.repo import Repo

from pipeline.compose import derived_files
from pipeline.config.params import load_params, read_yaml
from pipeline.dag import stage_digests
from pipeline.dag.code_digest import EXEMPT, Code, engines_besides
from pipeline.dag.graph import StageGraph
from tests.stages.clones import clone_project, copy_code, insert_statement, run

pytestmark = [pytest.mark.skipif(shutil.which("git") is None, reason="DVC needs Git"), pytest.mark.slow]


@pytest.fixture(scope="module")
def clone(tmp_path_factory, tiny_model, variables) -> Path:
    """A project in which DVC takes all stages of all axes for done; what they wrote does not matter here."""
    clone = clone_project(tmp_path_factory.mktemp("code") / "project", tiny_model)
    copy_code(clone)
    run(clone, variables, "git", "init", "-q")
    nodes = StageGraph(load_params(clone / "params.yaml")).values()
    paths = {path for node in nodes for path in (*node.dependencies, *node.outputs)}
    # The deepest first: some dependencies are files in a directory that another stage writes.
    for path in sorted(paths, key=lambda path: -path.count("/")):
        if not (clone / path).exists():
            (clone / path).parent.mkdir(parents=True, exist_ok=True)
            (clone / path).write_text(path)
    run(clone, variables, sys.executable, "-m", "dvc", "commit", "--force", "--quiet")
    return clone


# A definition of each of these files is edited; what must not be run again for it, whatever the walk says.
NO_SAMPLING = ("generate", "train-", "score", "build-", "discretize")
EDITED = {
    "core/laws/quantiles.py": ("quantile", ("eval-mcq", "eval-paloma")),
    "core/random_streams.py": ("stream_seed", ("discretize", "build-tries")),
    "axes/structured/wasserstein.py": ("evaluate_prompt", NO_SAMPLING),
    "axes/mcq/multiple_choice.py": ("total_variation", NO_SAMPLING),
    "axes/paloma/perplexity.py": ("bits_per_byte", NO_SAMPLING),
    "core/statistics/paired_tests.py": ("holm", NO_SAMPLING),
    "core/tries/trie.py": ("build_tries", ("generate", "train-hard")),
    "core/sampling.py": ("sample_tokens", ("train-", "score", "eval-")),
    "engines/loading/conditioned_model.py": ("open_model", ("train-", "eval-", "build-")),
    "engines/loading/model.py": ("load_model", ("eval-", "build-", "discretize")),
    "engines/training/fit.py": ("backward_pass", ("generate", "score", "eval-")),
    "artifacts/generations.py": ("read_answers", ("train-",)),
    "axes/mcq/report.py": ("mcq_table", (*NO_SAMPLING, "eval-", "judge")),
    "report/across_axes/seeds.py": ("paired_t_interval", (*NO_SAMPLING, "eval-", "judge")),
}


@contextlib.contextmanager
def edited(files: Iterable[str], clone: Path) -> Iterator[None]:
    """The clone with a statement more in the definition that is named for each file."""
    before = {path: path.read_text() for path in (clone / "pipeline" / file for file in files)}
    for file in files:
        insert_statement(clone / "pipeline" / file, EDITED[file][0])
    try:
        yield
    finally:
        for path, text in before.items():
            path.write_text(text)


@contextlib.contextmanager
def code_of(clone: Path) -> Iterator[None]:
    """Digests are those of the clone's code as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_digests, "project_code", lambda: Code(clone))
        yield


def stale(clone: Path) -> set[str]:
    """Stages that DVC would run after the derived files are written anew."""
    with code_of(clone):
        for name, text in derived_files(read_yaml(clone / "params.yaml")).items():
            (clone / name).write_text(text)
    with Repo(str(clone)) as repo:
        # From outside a repository DVC puts the path of dvc.yaml before a name.
        return {name.rpartition(":")[2] for name in repo.status()}


def top_level_name(path: Path, name: str) -> str:
    """The definition of a module that holds a function: itself, or its class."""
    for statement in ast.parse(path.read_text()).body:
        if any(getattr(node, "name", None) == name for node in ast.walk(statement)):
            return statement.name
    raise LookupError(f"{path} defines no {name}")


@pytest.fixture(scope="module")
def reached(clone, walk) -> dict[str, set[tuple[str, str]]]:
    """The definitions behind each stage by its name in DVC, by a walk over compiled code."""
    graph = StageGraph(load_params(clone / "params.yaml"))
    exempt = (*EXEMPT, *engines_besides("transformers"))
    entries = {
        stage.name: {stage.entry, *(part.entry for part in stage.parts)}
        for stage in {node.stage.name: node.stage for node in graph.values()}.values()
    }
    by_entry = {entry: walk.reach(entry, exempt) for entry in set().union(*entries.values())}
    by_stage = {name: set().union(*(by_entry[entry] for entry in own)) for name, own in entries.items()}
    return {name: by_stage[node.stage.name] for name, node in graph.items()}


@pytest.fixture(scope="module")
def expected(clone, reached) -> dict[str, set[str]]:
    """The stages that reach the edited definition of each file, but for the one that looks at all files."""
    found = {}
    for file, (name, _) in EDITED.items():
        key = (f"pipeline.{file[:-3].replace('/', '.')}", top_level_name(clone / "pipeline" / file, name))
        found[file] = {stage for stage, definitions in reached.items() if key in definitions} - {stage_digests.CHECK}
    return found


@pytest.fixture(scope="module")
def changed(clone):
    """A function that names the stages whose digest in code.yaml is not what it was in the beginning."""
    graph = StageGraph(load_params(clone / "params.yaml"))

    def digests() -> dict[str, str]:
        with code_of(clone):
            found = stage_digests.code_digests()
        stages = {name: node.stage for name, node in graph.items() if name != stage_digests.CHECK}
        return {
            name: found[stage.name]["transformers"] if stage.runs_engine else found[stage.name]
            for name, stage in stages.items()
        }

    before = digests()
    return lambda: {name for name, digest in digests().items() if digest != before[name]}


@pytest.mark.parametrize("file", EDITED)
def test_code_that_computes_something_else_has_another_digest_where_it_is_reached(clone, expected, changed, file):
    with edited([file], clone):
        found = changed()
    assert expected[file] and found == expected[file]
    assert not [stage for stage in found if stage.startswith(EDITED[file][1])]


@pytest.mark.parametrize("files", [("core/sampling.py",), tuple(EDITED)], ids=["one", "all"])
def test_code_that_computes_something_else_makes_stale_what_reaches_it(clone, expected, files):
    with edited(files, clone):
        found = stale(clone)
    assert found == {stage_digests.CHECK}.union(*(expected[file] for file in files))


def test_comments_and_imports_make_nothing_stale(clone):
    files = {path: path.read_text() for path in (clone / "pipeline").rglob("*.py")}
    for path, text in files.items():
        # Before the last statement, inside the module, where a digest by lines or by files would see it.
        place = ast.parse(text).body[-1].lineno - 1 if text.strip() else 0
        lines = text.splitlines(keepends=True)
        if place and lines[place - 1].startswith("@"):
            continue
        path.write_text("".join([*lines[:place], "# A comment.\n", "import colorsys\n", *lines[place:]]))
    try:
        found = stale(clone)
    finally:
        for path, text in files.items():
            path.write_text(text)
    assert found == {"check-params"}
