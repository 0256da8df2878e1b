# Targets of secmon. "make run" on a fresh machine starts a cluster of three nodes.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
READY_DEV := $(VENV)/.installed-dev
# Sources of the module that setup.py compiles.
COMPILED := $(addprefix secmon/engine/matching/,matchers.py compiled_matchers.pxd)
# Of all files of the web console the page is written last.
CONSOLE := secmon/api/static/index.html.gz
PIP := $(BIN)/pip --disable-pip-version-check --no-input install
# One more than processors: many tests wait for processes and timers.
JOBS ?= $(shell expr $$(nproc) + 1)
EXAMPLES ?= 500
FAULTS ?= 200
SEED ?=
# Groups and order of tests/conftest.py. Folders of passed tests are deleted, because they may be in memory.
PARALLEL = -q -n $(JOBS) --dist loadfile --no-loadscope-reorder
# Folders of tests that start daemons, clusters or many simulated agents; "make test-fast" runs all others.
SLOW := cli daemons deploy fuzz integration simulator

# Compiled modules are kept whatever the environment says: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install run console console-if-possible test test-fast faults lint fuzz bench compose-test compose-ha-test proto docs lock

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

install: $(READY) console-if-possible ## Install into .venv (needs Python 3.11 or newer)

run: $(READY) console-if-possible ## Run a master and two workers here; Ctrl-C stops them
	@$(BIN)/secmon demo

console: $(CONSOLE) ## Build the web console (installs Node.js into .venv, if this host has none)

# The server works without the console.
console-if-possible: $(READY)
	@$(MAKE) --no-print-directory -s $(CONSOLE) || echo "The web console was not built, for the reason above. To try again: make console"

test: lint console-if-possible ## Lint, types, import rules, all tests
	$(BIN)/pytest $(PARALLEL)

test-fast: $(READY_DEV) ## All tests but slow ones and those that start daemons and clusters (a minute)
	$(BIN)/pytest $(PARALLEL) --fast $(SLOW:%=--ignore=tests/%)

fuzz: $(READY_DEV) ## Send EXAMPLES new requests to a real cluster for each test of tests/fuzz
	SECMON_FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/pytest $(PARALLEL) --timeout=7200 tests/fuzz

faults: $(READY_DEV) ## Cause FAULTS faults in a cluster, in the order of SEED, and check the answers (an hour)
	$(BIN)/python -m tests.faults --faults $(FAULTS) $(SEED:%=--seed %)

lint: $(READY_DEV) ## Lint, types, import rules
	$(BIN)/ruff check secmon tests bench setup.py
	$(BIN)/ruff format --check secmon tests bench setup.py
	$(BIN)/mypy secmon tests bench
	$(BIN)/lint-imports

bench: $(READY_DEV) ## Measure throughput and latency (results in bench/results)
	$(BIN)/python -m bench

compose-test: ## Run the containers, stop nodes, check the answers (see docs/run-in-containers.md)
	@deploy/drill.py

compose-ha-test: ## Run three equal nodes and a replicated database in containers, kill the master and the primary
	@deploy/ha_drill.py

proto: $(READY_DEV) ## Generate the stubs in secmon/cluster/rpc/gen from proto/
	PATH=$(BIN):$$PATH $(BIN)/python -m grpc_tools.protoc -Isecmon/cluster/rpc/gen=proto --python_out=. --grpc_python_out=. \
	  --mypy_out=quiet:. --mypy_grpc_out=quiet:. secmon/cluster/rpc/gen/secmon.proto

docs: $(READY) ## Renew the tables of operations and metrics in docs/
	$(BIN)/python -m secmon.api.openapi --table > docs/operations.md
	$(BIN)/python -m secmon.operations.metrics.document docs/metrics.md

lock: $(READY_DEV) ## Renew the locked versions of all dependencies
	for extra in "" "--allow-unsafe --extra dev"; do $(BIN)/pip-compile -q --generate-hashes --no-emit-index-url \
	  --no-emit-trusted-host --no-emit-find-links --no-header --no-annotate --strip-extras $$extra \
	  -o requirements$${extra:+-dev}.lock pyproject.toml; done
	cd console && ../$(BIN)/pip-compile -q --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --no-header --no-annotate -o node.lock node.in && npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved

$(READY): pyproject.toml setup.py requirements.lock $(COMPILED) | $(BIN)/pip
	@echo "Installing the libraries ..."
	@$(PIP) --require-hashes -r requirements.lock
	@echo "Installing secmon ..."
	@$(PIP) --quiet --no-deps -e .
	@touch $@
	@echo "Installed: $(BIN)/secmon"
	@$(BIN)/python -c 'from secmon.engine.matching.implementation import FORM; print("Matchers of the analysis:", FORM)'

$(READY_DEV): requirements-dev.lock $(READY)
	@echo "Installing the developer tools ..."
	@$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

$(CONSOLE): $(shell find console -type f -not -path '*/node_modules/*') scripts/console.sh | $(READY)
	@scripts/console.sh $(VENV)

$(BIN)/pip:
	@scripts/venv.sh $(VENV)
