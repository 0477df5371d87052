#!/usr/bin/env bash
# The demo-scale ablations (Tables 24, 25 and 26), one sweep after the other. What is finished is skipped, so a run that
# was stopped goes on. Further arguments go to each sweep, e.g. seed=0.
# JOBS: cells that train at the same time, with one thread each. Costs are measured one at a time.
set -uo pipefail
JOBS=${JOBS:-2}
status=0

sweep() {
  python -m pipeline.sweep -m "$@"
  local code=$?
  # Ctrl-C ends a sweep with 130 and has to end all of them.
  if [ $code -eq 130 ]; then exit 130; fi
  if [ $code -ne 0 ]; then status=1; fi
}

cd "$(dirname "$0")/.." || exit 1
sweep sweep=construction_cost_demo "$@"
export OMP_NUM_THREADS=1
for name in soft_granularity_demo hard_ablation_demo; do
  sweep "sweep=$name" hydra/launcher=joblib "hydra.launcher.n_jobs=$JOBS" "$@"
done
exit $status
