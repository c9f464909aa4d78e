# From a fresh Debian 12 or 13 machine, as root. Slow set-up is cached in $SLURMCAST_CACHE (default /var/cache/slurmcast).
.DEFAULT_GOAL := help
SHELL := /bin/bash
LAB := slurm/lab/lab
BIN := .venv/bin
PYTEST_ARGS ?=
# The lab's tests wait more than they compute: one worker has them, the other the unit tests, file by file.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/pytest $(or $(PYTEST_ARGS),-n 2 --no-loadscope-reorder --ignore=tests/cluster)

.PHONY: help setup demo test lint lab unit bench clean
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo 'bench-NAME: $(sort $(BENCHES:bench-%=%))'

setup: ## .venv, the lab's root with Slurm 26.05, pyslurm: only what is missing
	@slurm/lab/setup.sh

demo: setup ## the main job on a real Slurm, measured against the same cluster without slurmcast
	@demo/run

test: setup lint ## everything: lint, format, types, unit tests, tests in the real Slurm and beside its containers
	@[ -n "$(PYTEST_ARGS)" ] || $(MAKE) --no-print-directory cluster-test
	@LAB_QUIET=1 $(LAB) env $(PYTEST)

unit: setup ## the fast tests only
	@LAB_CLUSTER=0 $(LAB) env $(PYTEST) tests/unit

lint: setup ## ruff, format, mypy
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

lab: setup ## a shell in a fresh Slurm cluster with slurmcast
	@$(LAB)

CLUSTER := slurm/docker/local
.PHONY: cluster cluster-test
cluster: setup ## a Slurm of containers: up, one demo job explained from the login container, down
	@$(CLUSTER)/setup.sh && $(CLUSTER)/cluster docker-compose exec -T -u alice login first-job

cluster-test: setup ## tests beside that cluster; skipped, with the reason, where this machine can't run containers (status 77)
	@($(CLUSTER)/setup.sh && LAB_QUIET=1 $(CLUSTER)/cluster $(BIN)/pytest tests/cluster $(PYTEST_ARGS)) || \
	  { [ $$? = 77 ] && echo "cluster-test: skipped, this machine can't run containers"; }

BENCHES := $(patsubst benchmarks/%.py,bench-%,$(wildcard benchmarks/*.py))
.PHONY: $(BENCHES)
bench: $(BENCHES) ## all benchmarks; each alone as make bench-NAME; the last line of each is JSON
$(BENCHES): bench-%: setup
	@LAB_QUIET=1 $(LAB) $(BIN)/python benchmarks/$*.py
bench-learning: export LAB_SPEED := 40
bench-learning: export LAB_A100 := 4x4
bench-learning: export LAB_A6000 := 4x4
bench-learning: export LAB_CAPTURE := 0
bench-learning: export LAB_SCHED := bf_interval=30,sched_interval=60
bench-learning: export LAB_TOML := $(CURDIR)/benchmarks/learning_curve/slurmcast.toml

.PHONY: corpus
corpus: setup ## measure the training programs of benchmarks/corpus; goes on where it was stopped
	@$(BIN)/python -m benchmarks.corpus.measure

clean: ## remove .venv (the cache outside the tree stays)
	rm -rf .venv
