#!/usr/bin/env bash
# `dvc repro` with this project's settings; arguments are passed on. JOBS=2 runs two stages at a time, GPUS=0,1 on these.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! git rev-parse --git-dir >/dev/null 2>&1; then
  # Unpacked from an archive: DVC has to be told that there is no Git.
  dvc config --local core.no_scm true
fi
if [ -n "${JOBS:-}" ]; then
  exec python -m pipeline.runs.parallel --jobs "$JOBS" ${GPUS:+--gpus "$GPUS"} "$@"
fi
exec dvc repro "$@"
