"""DVC, with YAML parsed once: ``python -m pipeline.dag.dvc_command repro`` is ``dvc repro`` in less time.

DVC parses params.yaml and code.yaml anew for every stage, dvc.lock twice, and visits the whole of params.yaml for every
key that a stage depends on. With the paper's hundreds of stages that is most of what a run with nothing to do takes.
Here the same text is parsed once, and a key is looked up. Files are read as often as before, so a change is seen when
plain DVC would see it, and the same stages are out of date.

And DVC parses and writes the whole of dvc.lock for every stage that has run, with a parser that keeps comments: seconds
for each stage. Here the lines of the stage that has run are replaced. The file is the same to the byte, but for floats
of other stages, of which DVC's parser may change the last digit.

And where a command names a stage as it was called in an earlier version, an error says what it is called now.
"""

import contextlib
import functools
import pickle
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dpath
from dvc import dvcfile
from dvc.cli import main
from dvc.fs import LocalFileSystem
from dvc.utils import strictyaml
from dvc.utils.serialize import _yaml, dump_yaml, dumps_yaml

from pipeline.artifacts.atomic import atomic_path
from pipeline.errors import ConfigError

PLAIN_NAMES = re.compile(r"[^\W\d][\w-]*(\.[^\W\d][\w-]*)*")
"""No patterns, which match any number of keys, and no numbers, which match integers, too."""
LOCK_HEAD = "schema: '2.0'\nstages:\n"
OLD_NAME = re.compile(r"[a-z]+_[a-z_]+(@\S+)?")
"""What may be the name that a stage had in an earlier version."""
STAGE_LINE = re.compile(r"^  (?=\S)", re.MULTILINE)
_parse, _get, _modify = _yaml.parse_yaml, dpath.get, dvcfile.modify_yaml


@functools.lru_cache(maxsize=8)
def _parsed(text: str, path: str) -> bytes:
    # A pickle, because whoever asks may change what it gets.
    return pickle.dumps(_parse(text, path))


def parse_yaml(text: str, path: str, typ: str = "safe") -> Any:
    """What DVC's ``parse_yaml`` returns; values of "rt" keep their comments, and are parsed each time."""
    return pickle.loads(_parsed(text, path)) if typ == "safe" else _parse(text, path, typ)


def get(obj: Any, glob: Any, separator: str = "/", **options: Any) -> Any:
    """What ``dpath.get`` returns; plain names, each a key of the dictionary before it, are followed directly."""
    if separator == "." and isinstance(glob, str) and PLAIN_NAMES.fullmatch(glob):
        found = obj
        for name in glob.split(separator):
            if not isinstance(found, dict) or name not in found:
                break
            found = found[name]
        else:
            return found
    return _get(obj, glob, separator, **options)


def _lines_by_stage(text: str, stages: Any) -> dict[str, str] | None:
    """The lines of dvc.lock's text by stage; None where it is not laid out as DVC writes stages and nothing else."""
    if not text.startswith(LOCK_HEAD) or not isinstance(stages, dict):
        return None
    body = text.removeprefix(LOCK_HEAD)
    lines = STAGE_LINE.split(body)[1:]
    if len(lines) != len(stages) or re.search(r"^\S", body, re.MULTILINE):
        return None
    found = {name: f"  {part}" for name, part in zip(stages, lines, strict=True)}
    return found if all(part.startswith(f"  {name}:\n") for name, part in found.items()) else None


@contextlib.contextmanager
def modify_yaml(path: Any, fs: Any = None) -> Iterator[Any]:
    """What DVC's ``modify_yaml`` does; of dvc.lock only the stages that have changed are written anew."""
    file, text = Path(path), ""
    if file.name == dvcfile.LOCK_FILE and isinstance(fs, LocalFileSystem | None) and file.exists():
        text = file.read_text(encoding="utf-8")
    data = parse_yaml(text, str(path)) if text else {}
    lines = _lines_by_stage(text, data.get("stages"))
    if lines is None:
        with _modify(path, fs) as data:
            yield data
        return
    before = parse_yaml(text, str(path))
    yield data
    if data.keys() != before.keys():
        dump_yaml(path, data, fs)
        return
    for name, value in data["stages"].items():
        # By what they look like: dictionaries of another order are equal, and written otherwise.
        if repr(before["stages"].get(name)) != repr(value):
            lines[name] = dumps_yaml({"stages": {name: value}}).removeprefix("stages:\n")
    with atomic_path(file) as temporary:
        temporary.write_text(LOCK_HEAD + "".join(lines[name] for name in data["stages"]), encoding="utf-8")


def parse_once() -> None:
    """Let DVC in this process use the functions above."""
    _yaml.parse_yaml = strictyaml.parse_yaml = parse_yaml
    dvcfile.modify_yaml = modify_yaml
    dpath.get = get


def refuse_old_names(arguments: Sequence[str], params: Path) -> None:
    """Raise ConfigError for a name that a stage had in an earlier version."""
    if named := [argument for argument in arguments if OLD_NAME.fullmatch(argument)]:
        # Not before: it takes longer to load than DVC does.
        from pipeline.config.params import load_params
        from pipeline.dag.graph import StageGraph

        StageGraph(load_params(params)).select(named)


if __name__ == "__main__":
    try:
        refuse_old_names(sys.argv[1:], Path("params.yaml"))
    except ConfigError as error:
        sys.exit(f"error: {error}")
    parse_once()
    sys.exit(main(sys.argv[1:]))
