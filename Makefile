# Each target brings its own environment: `make up` and `make test` work on a fresh clone.

VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TOOLS  := $(VENV)/.tools

# Many tests wait, and not for a processor. A file's tests stay together, for they share what is dear to start.
PYTEST := $(BIN)/python -m pytest
BESIDE := --numprocesses $(shell expr $$(nproc) + 2) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: up down test retest compiled packages check bench dist deb format clean help

help:  ## Show what can be made.
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */\1\t/' | expand -t 12

up: $(READY)  ## Start an API server and a node with the example pods.
	$(BIN)/pykubelet up examples

down: $(READY)  ## Stop them; `pykubelet reset` removes what they made.
	$(BIN)/pykubelet down

test:  ## Run all tests.
	@$(MAKE) --no-print-directory --jobs=2 compiled packages
	$(PYTEST) $(BESIDE)

retest: $(TOOLS)  ## Run again what failed last, one after the other.
	$(PYTEST) --last-failed --last-failed-no-failures none

check: $(TOOLS)  ## Format, lint, types, import law, sizes.
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_sizes.py

bench: $(TOOLS)  ## Measure, and print tables; `make bench SUITE=cri` runs one.
	PYTHONPATH=tests $(BIN)/python -m bench $(SUITE)

dist: $(TOOLS)  ## Build the wheel and the source archive into dist/.
	rm -rf dist
	$(BIN)/python -m hatchling build

deb: $(TOOLS)  ## Build a Debian package into dist/, with all that it needs, for this Debian and processor.
	PYTHON=$(BIN)/python tools/make_deb.sh dist

format: $(TOOLS)  ## Put the code into its format.
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean:  ## Remove the environment and what tools left behind.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

# What pytest makes of the tests, made once and not by each worker at the same time; packages are downloaded meanwhile.
compiled: $(TOOLS)
	@PYTHONDONTWRITEBYTECODE= $(PYTEST) --collect-only -qq >/dev/null || true

packages:
	@tools/install_test_packages.sh

# Running needs less than working on it: what `make up` installs is small, and the tools come with the first test or check.
# The constraints are what was tested; pyproject.toml says what may work.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "pykubelet needs Python 3.11 or later; name one with: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) .
	@touch $@

$(TOOLS): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[dev]'
	@touch $(READY) $@
