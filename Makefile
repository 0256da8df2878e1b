# secmon. "make run" on a fresh machine ends in a running cluster of three nodes.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
READY_DEV := $(VENV)/.installed-dev
PIP := $(BIN)/pip --disable-pip-version-check --no-input install
JOBS ?= auto

.PHONY: help install run test lint bench proto

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

install: $(READY) ## Install into .venv (needs Python 3.11 or newer)

run: $(READY) ## Run a master and two workers here; Ctrl-C stops them
	@$(BIN)/secmon demo

test: lint ## Lint, types, import rules, all tests
	$(BIN)/pytest -q -n $(JOBS)

lint: $(READY_DEV) ## Lint, types, import rules
	$(BIN)/ruff check secmon tests
	$(BIN)/ruff format --check secmon tests
	$(BIN)/mypy secmon tests
	$(BIN)/lint-imports

bench: $(READY_DEV) ## Measure throughput and latency (results in bench/results)
	$(BIN)/python -m bench

proto: $(READY_DEV) ## Generate the stubs in secmon/common/rpc/gen from proto/
	$(BIN)/python -m grpc_tools.protoc -I proto --python_out=secmon/common/rpc/gen --pyi_out=secmon/common/rpc/gen \
	  --grpc_python_out=secmon/common/rpc/gen proto/secmon.proto
	sed -i 's/^import secmon_pb2 as/from secmon.common.rpc.gen import secmon_pb2 as/' secmon/common/rpc/gen/secmon_pb2_grpc.py

$(READY): pyproject.toml requirements.lock | $(BIN)/pip
	@echo "Installing the libraries ..."
	@$(PIP) --require-hashes -r requirements.lock
	@echo "Installing secmon ..."
	@$(PIP) --quiet --no-deps -e .
	@touch $@
	@echo "Installed: $(BIN)/secmon"

$(READY_DEV): requirements-dev.lock $(READY)
	@echo "Installing the tools of developers ..."
	@$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

$(BIN)/pip:
	@scripts/venv.sh $(VENV)
