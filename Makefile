# Every target sets up what it needs: .venv is made on first use and again when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
JOBS ?= 2
PYTEST_ARGS ?=

.DEFAULT_GOAL := help

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
ifdef UV
	uv venv --python '>=3.11' $(VENV)
else
	$(PYTHON) -m venv $(VENV)
endif

define install
	@echo "installing kubewright[$(1)] into $(VENV)"
	$(if $(UV),uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[$(1)]',$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$(1)]')
endef

$(VENV)/.run-ready: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,etcd)
	@touch $@

$(VENV)/.dev-ready: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,dev)
	@touch $@ $(VENV)/.run-ready

$(VENV)/.docs-ready: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,docs)
	@touch $@

lint: $(VENV)/.dev-ready ## Format check, lint, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## Lint, then every test, with coverage
	$(BIN)/pytest -n $(JOBS) --cov --cov-report=term $(PYTEST_ARGS)

demo: $(VENV)/.run-ready ## See it work
	$(BIN)/python examples/demo.py

bench: $(VENV)/.dev-ready ## CPU per operation of everything that has a target
	$(BIN)/python -m bench

docs: $(VENV)/.docs-ready ## Build the book into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

format: $(VENV)/.dev-ready ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove everything that make made
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .coverage build dist

.PHONY: help lint test demo bench docs format clean
