# Demarkus for Kubernetes. `make help` lists what there is.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
LOCKS := world broker operator dev

.DEFAULT_GOAL := help
.PHONY: help env demo test test-all conformance test-stress test-histories test-load fuzz bench-operator bench-store bench-world measure-content lint format crds chart control-plane lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(STAMP) ## the Python environment in .venv, from hashed locks

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: $(PYTHON) is older than 3.11; name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "make: $(PYTHON) lacks venv or ensurepip; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## a universe of two worlds on this machine, filled, read and edited through the gateway
	@$(BIN)/python -m dev.demo

test: $(STAMP) ## every check and test that fits on a laptop; prints what each part took
	@$(BIN)/python -m dev.run_tests

test-all: $(STAMP) ## the same, and nothing may be skipped
	@$(BIN)/python -m dev.run_tests --no-skips

conformance: $(STAMP) ## ask a Mark server for every rule: HOST=... PORT=... PROFILE=... (docs/conformance.md); our own without
	@$(BIN)/python -m pytest -q --no-header tests/conformance $(if $(PROFILE),--mark-profile $(PROFILE)) \
	  $(if $(HOST),--mark-host $(HOST)) $(if $(PORT),--mark-port $(PORT)) $(ARGS)

test-stress: STRESS_SECONDS ?= 600
test-stress: $(STAMP) ## three writers, one bucket, faults and freezes for 10 minutes; a minute of throttling
	@DEMARKUS_STRESS_SECONDS=$(STRESS_SECONDS) DEMARKUS_THROTTLE_SECONDS=60 \
	  $(BIN)/python -m pytest -q --no-header tests/stress tests/world/test_world_bucket.py

test-histories: HISTORIES ?= 1000
test-histories: $(STAMP) ## draw 1,000 legal histories and verify what each leaves behind: no false alarm
	@DEMARKUS_HISTORIES=$(HISTORIES) $(BIN)/python -m pytest -q --no-header tests/faults/test_legal_histories.py

test-load: LOAD_SECONDS ?= 600
test-load: $(STAMP) ## 64 clients at a world for 10 minutes, with faults and reloads: all answered, memory flat; the loop's lag
	@$(BIN)/python -m tests.load.run --seconds $(LOAD_SECONDS)

fuzz: FUZZ_SECONDS ?= 600
fuzz: $(STAMP) ## what comes from strangers, mutated for 10 minutes: parsers guided by coverage, a world under datagrams
	@$(BIN)/python -m tests.fuzz.campaign --seconds $(FUZZ_SECONDS)

bench-operator: $(STAMP) ## what the operator does with 1,000 Worlds: changes, a restart, memory, reads when quiet
	@$(BIN)/python -m tests.benchmarks.operator

bench-store: $(STAMP) ## what the store engine does on this machine: commits a second, cold start, memory
	@$(BIN)/python -m tests.benchmarks.store

bench-world: $(STAMP) ## what a request costs a world: server CPU, rates, times, memory, beside the bare engine; 6 minutes
	@$(BIN)/python -m tests.benchmarks.world

measure-content: $(STAMP) ## how often the checks for secrets and personal data find something in documents around here
	@$(BIN)/python -m tests.benchmarks.content

lint: $(STAMP) ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(STAMP) ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

crds: $(STAMP) ## write crds/ anew from the models
	@$(BIN)/demarkus crds --output crds

chart: $(STAMP) ## write anew what of the chart follows from the code and from values.yaml
	@$(BIN)/python -m dev.chart

control-plane: $(STAMP) ## build the Kubernetes control plane for tests (Go; 10 to 30 minutes, then cached)
	@$(BIN)/python -m dev.cluster.build

lock: $(STAMP) ## write requirements/*.txt anew from pyproject.toml
	@for extra in $(LOCKS); do \
	  $(BIN)/uv pip compile --quiet pyproject.toml --extra $$extra --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header --output-file requirements/$$extra.txt || exit 1; \
	done

clean: ## remove the environment, caches and the local state folder
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .demarkus
