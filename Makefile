.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TOOLS := $(VENV)/.installed-dev
PROJECTS := $(wildcard pyproject.toml shared/pyproject.toml toolkit/pyproject.toml services/*/pyproject.toml tools/hatch_build.py)
MODULES := $(wildcard shared/dra_shared services/*/dra_* toolkit/dra_* cli/dra_cli cli/dralab)
MYPY_TARGETS := $(MODULES) $(wildcard tests bench tools)
DIST ?= dist
UPSTREAM ?= .upstream

# Let Python cache compiled modules and pytest's rewritten tests, because many processes read them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install install-dev demo test unit quick thorough pages delays fuzz endure endure-servers operators upstream compare contracts drivers lint format types layers bench bench-compare dist try-dist release docs reference pictures lock gates schemas served tables assets recorded clean

help: ## Show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(INSTALLED) ## Set up .venv with what dralab needs to run; does nothing when it is up to date

$(INSTALLED): requirements.lock $(PROJECTS)
	@tools/install "$(PYTHON)" "$(VENV)" $< .
	@touch $@

install-dev: $(TOOLS) ## Set up .venv with linters and test tools, too

$(TOOLS): requirements-dev.lock $(PROJECTS)
	@tools/install "$(PYTHON)" "$(VENV)" $< .
	@touch $(INSTALLED) $@

demo: install ## Start a whole cluster, run the quickstart through it, and take it down again (STEP=1 stops at each phase)
	@$(BIN)/dralab demo $(if $(STEP),--step)

test: lint types layers unit ## Everything that CI runs: lint, types, layers and all tests

unit: install-dev ## The tests alone (PYTEST="-k name" narrows them)
	@$(BIN)/python -m compileall -q $(MODULES) # The tests start many processes.
	@DRALAB_TEST_RUN=make-$$$$ $(BIN)/dralab warm -- $(BIN)/python -m pytest -n 4 $(PYTEST) # On two cores: of four some wait for other processes.

quick: install-dev ## The tests that start no process and open no socket
	@$(BIN)/python -m pytest -n 2 --quick $(PYTEST)

thorough: install-dev ## The tests with every random case and page (`make test` runs a sample that depends on the commit)
	@DRALAB_SAMPLE=all $(BIN)/dralab warm -- $(BIN)/python -m pytest -n 4 $(PYTEST)

pages: install-dev ## Run the commands of every page of the documentation (`make test` runs README.md and a sample)
	@DRALAB_SAMPLE=all $(BIN)/dralab warm -- $(BIN)/python -m pytest -n 2 tests/docs/test_commands.py $(PYTEST)

delays: install-dev ## The tests, with random delays in each request and watch of our client (DELAYS=seed, PYTEST="-k name")
	@$(BIN)/python -m pytest -n 4 --delays $(or $(DELAYS),1) $(PYTEST)

fuzz: install-dev ## Send random requests to an API server (FUZZ="--requests 10000 1 2 3": 10,000 for each of the seeds 1, 2, 3)
	@$(BIN)/python -m tests.apiserver.fuzzing.run $(FUZZ)

mutants: install-dev ## Run the conformance suite for drivers on every mutant (a driver with a deliberate bug)
	@DRALAB_MUTANTS=all $(BIN)/python -m pytest tests/driver_conformance

endure: install-dev ## Kill node agents and device plugins for ten minutes while pods run (ENDURE="--minutes 60 --seed 2")
	@$(BIN)/python -m tests.endurance.run $(ENDURE)

endure-servers: install-dev ## Kill API servers and their PostgreSQL for five minutes while clients write (ENDURE="--minutes 60 --old REVISION")
	@$(BIN)/python -m tests.endurance.servers $(ENDURE)

operators: install-dev ## Run JobSet's own program, installed by kubectl and by Helm (OPERATORS=folder of JobSet's sources; needs Go)
	@DRALAB_JOBSET=$(abspath $(OPERATORS)) $(BIN)/python -m pytest tests/integration/test_operators.py $(PYTEST)

upstream: install-dev ## Build the programs that answer cases with real Kubernetes packages, into .upstream/ (needs Go)
	@$(BIN)/python -m tools.compare --build $(UPSTREAM)

compare: install-dev ## Compare random cases with real Kubernetes packages (COMPARE="alloc cel tracker prepare validate", VERSION=1.37 SEED=1 COUNT=1000; needs Go)
	@$(BIN)/python -m tools.compare $(COMPARE) --programs $(UPSTREAM) $(addprefix --version ,$(VERSION)) --seed $(or $(SEED),1) --count $(or $(COUNT),1000)

contracts: install-dev ## Run the driver suite on dralab's own drivers with each Kubernetes (CONTRACTS="--versions 1.34,1.37 project")
	@$(BIN)/python -m tools.drivers.versions $(CONTRACTS)

drivers: install-dev ## Build published DRA drivers and run the driver suite on each (DRIVERS="cpu dranet --sources DIR"; needs Go, some root)
	@$(BIN)/python -m tools.drivers $(DRIVERS)

lint: install-dev ## ruff, and the language of docstrings, names, pages and commit titles
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python -m tools.language

format: install-dev ## Let ruff fix what it can
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

types: install-dev ## mypy, strict
	@tools/types $(BIN)/mypy $(MYPY_TARGETS)

layers: install-dev ## import-linter: which package may import which
	@$(BIN)/lint-imports

bench: install-dev ## Print the benchmarks' numbers
	@$(BIN)/python -m bench

bench-compare: install-dev ## Run a benchmark on revision BASE and on this one in turns, and print ratios (BENCH="scheduling --nodes 100" TURNS=3)
	@$(BIN)/python -m tools.benchcompare --base $(BASE) --turns $(or $(TURNS),3) $(or $(BENCH),scheduling)

docs: install-dev ## Build the documentation as a site in site/, without network; `dralab docs` shows it (URL=where it is published)
	@$(BIN)/python -m tools.site $(if $(URL),--url $(URL))

reference: install-dev ## Write the tables in docs/ that are generated from the code again
	@$(BIN)/python -m tools.reference

pictures: install-dev ## Take the screenshots in docs/images again (needs Chromium)
	@DRALAB_SCREENSHOTS=1 $(BIN)/python -m pytest -n 2 $(shell grep -l 'shoot(' tests/integration/test_*.py) $(PYTEST)

dist: install-dev ## Build the wheel and the sdist, and gather all wheels that an installation without network needs (DIST=dist)
	@tools/dist $(BIN)/python $(DIST)

try-dist: dist ## Install from that folder alone, on each installed Python, and run the demo (PYTHONS="python3.12 python3.13")
	@tools/try-dist $(DIST) $(or $(PYTHONS),$(shell tools/pythons))

release: install-dev ## Check, test, build and tag the version of shared/dra_shared/__init__.py
	@$(BIN)/python -m tools.release check
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory try-dist
	@$(BIN)/python -m tools.release tag

assets: install-dev ## Fetch the scripts of /docs again that tools/assets.toml pins (needs npm)
	@$(BIN)/python -m tools.assets

lock: ## Resolve the locks again (needs uv)
	@tools/lock

served: install-dev ## Write what released Kubernetes API servers serve to tests/data/served again (needs Go)
	@$(BIN)/python -m tools.served

gates: install-dev ## Write the feature gates of the released Kubernetes sources to tests/data/gates again (needs Go)
	@$(BIN)/python -m tools.gates

schemas: install-dev ## Make the API schemas again from the Go types that tools/schemas/sources.toml pins (needs Go)
	@$(BIN)/python -m tools.schemas

tables: install-dev ## Compute the tables of CEL's parser again, after a change of its grammar or of lark
	@PYTHONHASHSEED=0 $(BIN)/python -c "from dra_shared.cel import grammar as g; g.TABLES.write_bytes(g.tables())"

recorded: install-dev ## Select the sample in tests/data/recorded again from the complete recordings (in DRALAB_REFERENCE)
	@$(BIN)/python -m tools.recorded

clean: ## Remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
