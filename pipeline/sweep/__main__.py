"""Run the pipeline for every combination of settings, e.g.
``python -m pipeline.sweep -m sweep=hard_ablation model=qwen3_14b``. docs/sweeps.md says which preset makes which table.
"""

import sys

from pipeline.sweep.application import run_application

if __name__ == "__main__":
    sys.exit(run_application(sys.argv[1:]))
