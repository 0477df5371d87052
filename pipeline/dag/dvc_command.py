"""DVC, with YAML parsed once: ``python -m pipeline.dag.dvc_command repro`` is ``dvc repro`` in less time.

DVC parses params.yaml and code.yaml anew for every stage, dvc.lock twice, and visits the whole of params.yaml for every
key that a stage depends on. With the paper's hundreds of stages that is most of what a run with nothing to do takes.
Here the same text is parsed once, and a key is looked up. Files are read as often as before, so a change is seen when
plain DVC would see it, and the same stages are out of date.
"""

import functools
import pickle
import re
import sys
from typing import Any

import dpath
from dvc.cli import main
from dvc.utils import strictyaml
from dvc.utils.serialize import _yaml

PLAIN_NAMES = re.compile(r"[^\W\d][\w-]*(\.[^\W\d][\w-]*)*")
"""No patterns, which match any number of keys, and no numbers, which match integers, too."""
_parse, _get = _yaml.parse_yaml, dpath.get


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


def parse_once() -> None:
    """Let DVC in this process use the functions above."""
    _yaml.parse_yaml = strictyaml.parse_yaml = parse_yaml
    dpath.get = get


if __name__ == "__main__":
    parse_once()
    sys.exit(main(sys.argv[1:]))
