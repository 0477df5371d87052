#!/usr/bin/env bash
# Installs the pinned requirements and prints the directory that holds the environment's `python`.
# An active virtual or conda environment is used as it is, torch included; otherwise .venv is made.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
if [ -n "${VIRTUAL_ENV:-}" ]; then
  environment=$VIRTUAL_ENV
elif [ -n "${CONDA_PREFIX:-}" ]; then
  environment=$CONDA_PREFIX
else
  environment=$PWD/.venv
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "error: $python is not Python 3.11 or newer; set PYTHON to one that is" >&2
  exit 1
fi
if [ ! -x "$environment/bin/python" ]; then
  echo "making a virtual environment in $environment" >&2
  "$python" -m venv "$environment"
fi

digest=$(cat requirements.txt constraints.txt | "$environment/bin/python" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest()[:16])')
stamp=$environment/.calibration-requirements-$digest
if [ ! -e "$stamp" ]; then
  pip=("$environment/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt)
  if ! "$environment/bin/python" -c 'import torch' 2>/dev/null; then
    version=$(grep '^torch==' requirements.txt)
    if [ "$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null 2>&1; then
      echo "installing $version (CPU build: no GPU found)" >&2
      "${pip[@]}" --retries 0 --extra-index-url https://download.pytorch.org/whl/cpu "$version" >&2
    else
      echo "installing $version" >&2
      "${pip[@]}" "$version" >&2
    fi
  fi
  echo "installing the other requirements" >&2
  grep -v '^torch==' requirements.txt | "${pip[@]}" -r /dev/stdin >&2
  touch "$stamp"
fi
echo "$environment/bin"
