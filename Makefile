# `make demo` and `make test` need nothing before them: each sets up what it uses.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --constraint constraints.txt
WORKERS ?= 2
SELECT ?= not slow and not mutant

.PHONY: help demo test test-slow test-harness test-mutants test-oldest coverage lint format bench paper docs tutorials dist clean
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## A real model's outputs: a table here, an interactive report on disk
	$(BIN)/abstain demo

test: $(VENV)/.test ## Everything but the long simulations
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "$(SELECT)"

test-slow: $(VENV)/.test ## The long simulations
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m slow

test-harness: $(VENV)-harness/.test ## The adapters and integrations, inside the packages themselves
	$(VENV)-harness/bin/python -m pytest tests/harness

test-mutants: $(VENV)/.test ## Every planted bug must turn the tests red
	$(BIN)/python -m pytest -n $(WORKERS) tests/core/test_mutants.py

# What needs lightning, transformers, browsers, codespell, type checkers or hundreds of runs of the tests is not tried with the
# oldest versions.
OLDEST := $(addprefix --ignore=,src/abstain/torch/huggingface.py src/abstain/torch/lightning.py \
  tests/torch/test_stopping.py tests/torch/test_resumed_tuning.py tests/torch/test_examples.py tests/docs/test_imports.py \
  tests/docs/test_spelling.py tests/report/test_cascade_page.py tests/journeys/test_engineer.py tests/typing \
  tests/core/test_mutants.py tests/reproduction reproduction)

test-oldest: $(VENV)-oldest/.test ## The tests with the oldest versions that pyproject.toml declares
	$(VENV)-oldest/bin/python -m pytest -n $(WORKERS) --dist loadgroup -m "$(SELECT) and not data" $(OLDEST)

coverage: $(VENV)/.coverage ## Share of lines that the tests run; below 95% in core, metrics, inference or thresholds is an error
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(WORKERS) --dist loadgroup -m "$(SELECT)"
	$(BIN)/coverage combine --quiet
	@for package in core metrics inference thresholds; do \
	  printf '%s ' $$package; \
	  $(BIN)/coverage report --include "*/abstain/$$package/*" --format total --fail-under 95 || exit 1; \
	done
	@printf 'abstain '; $(BIN)/coverage report --format total

lint: $(VENV)/.lint ## Style, types, import layers, workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet .github

format: $(VENV)/.lint ## Let ruff lay out the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test ## Speed of the core and of evaluate beside what they are measured against (BENCH="--full" for 1e8)
	$(BIN)/python benchmarks/core.py $(BENCH)
	-$(BIN)/pip install --quiet --no-deps torch-uncertainty  # a peer; its metrics' files are timed alone
	$(BIN)/python benchmarks/evaluate.py

paper: $(VENV)/.test ## The paper's figures and tables, from ABSTAIN_DATA or from scikit-learn's digits
	$(BIN)/python -m reproduction all --out out/paper

docs: $(VENV)/.docs ## The documentation site, offline, warnings as errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

tutorials: $(VENV)/.tutorials ## Run the tutorials: pages as they are stored, notebooks in Jupyter
	$(BIN)/python docs/generate/tutorials.py --check
	$(BIN)/python docs/generate/tutorials.py --notebooks

dist: $(VENV)/bin/python ## Wheel and sdist, each tried in an empty environment
	sh tools/check_dist.sh

clean: ## Remove the environment and caches
	rm -rf $(VENV) $(VENV)-harness $(VENV)-oldest .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# Environments: one folder, a stamp for each set of packages.

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade 'pip>=25.1'

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable .
	@touch $@

# Inspect and lm-evaluation-harness pin versions that other extras do not take
$(VENV)-harness/.test: pyproject.toml constraints-harness.txt
	$(PYTHON) -m venv $(VENV)-harness
	$(VENV)-harness/bin/pip install --quiet --upgrade 'pip>=25.1'
	$(VENV)-harness/bin/pip install --quiet --constraint constraints-harness.txt --editable '.[files]' --group harness
	@touch $@

# torch at its usual version: it is no part of the test, but most tests of arrays use it
$(VENV)-oldest/.test: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/pip install --quiet --upgrade 'pip>=25.1'
	$(VENV)-oldest/bin/pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(VENV)-oldest/bin/pip install --quiet --constraint constraints-oldest.txt --editable '.[files,torch,sklearn,plot,jax,dask,spark]' --group test-oldest
	@touch $@

$(VENV)/.coverage: $(VENV)/.test
	$(INSTALL) --group coverage
	@touch $@

$(VENV)/.tutorials: $(VENV)/.test
	$(INSTALL) --group tutorials
	@touch $@

$(VENV)/.lint: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable . --group lint
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable '.[files,sklearn,plot]' --group docs
	@touch $@

# torch is asked for by its exact version first, so that a CPU build found on the machine is taken.
$(VENV)/.test: pyproject.toml constraints.txt tools/debian.sh | $(VENV)/bin/python
	$(INSTALL) "$$(grep '^torch==' constraints.txt)"
	$(INSTALL) --editable '.[all]' --group test
	sh tools/debian.sh
	@touch $@
