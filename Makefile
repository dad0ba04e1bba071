.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := shared services/apiserver services/scheduler services/controller services/node-agent cli
STAMP := $(VENV)/.installed
MYPY_TARGETS := $(wildcard shared/dra_shared services/*/dra_* cli/dra_cli tests bench)

.PHONY: help install demo test unit lint format types layers bench lock clean

help: ## Show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: $(STAMP) ## Set up .venv from requirements.lock; does nothing when it is up to date

$(STAMP): requirements.lock $(PACKAGES:%=%/pyproject.toml)
	@tools/install "$(PYTHON)" "$(VENV)" $(PACKAGES)
	@touch $@

demo: install ## Start a whole cluster, run the quickstart through it, and take it down again
	@$(BIN)/dralab demo

test: lint types layers unit ## Everything that CI runs: lint, types, layers and all tests

unit: install ## The tests alone (PYTEST="-k name" narrows them)
	@$(BIN)/python -m pytest -n 2 --dist loadgroup $(PYTEST)

lint: install ## ruff
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

format: install ## Let ruff mend what it can
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

types: install ## mypy, strict
	@$(BIN)/mypy $(MYPY_TARGETS)

layers: install ## import-linter: who may import whom
	@$(BIN)/lint-imports

bench: install ## Print the benchmarks' numbers
	@$(BIN)/python -m bench

lock: ## Resolve requirements.lock again (needs uv)
	@tools/lock

clean: ## Remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
