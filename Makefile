# Every target installs what it needs: .venv is created on first use and updated when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
# One more than there are cores: tests wait for the processes that they start.
JOBS ?= $(shell echo $$(($$(nproc 2>/dev/null || echo 2) + 1)))
PYTEST_ARGS ?=

.DEFAULT_GOAL := help

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

lint: $(VENV)/.dev-ready ## Format check, lint, types, layers, spelling and vocabulary
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src docs examples tests bench tools README.md CONTRIBUTING.md CHANGELOG.md
	$(BIN)/python tools/check_language.py

test: lint ## Lint, then every test
	$(BIN)/pytest -n $(JOBS) $(PYTEST_ARGS)

quick: $(VENV)/.dev-ready ## Lint, then the tests nearest to what you changed, in about a minute; BASE=main compares a branch
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@tests=$$($(BIN)/python tools/affected_tests.py --base $(or $(BASE),HEAD)) || exit 1; \
		if [ -n "$$tests" ]; then $(BIN)/pytest -q -n $(JOBS) $(PYTEST_ARGS) $$tests; fi

attack: $(VENV)/.dev-ready ## Hostile clients, files, identities and processes, for longer than `make test`
	KUBEWRIGHT_ATTACK=$(or $(EXAMPLES),2000) KUBEWRIGHT_FUZZ_SECONDS=$(or $(SECONDS),30) $(BIN)/pytest -n $(JOBS) \
		tests/security tests/fuzz tests/apiserver/test_hostile_bodies.py tests/apiserver/test_hostile_connections.py \
		tests/apiserver/test_slow_clients.py tests/apiserver/test_http2.py $(PYTEST_ARGS)

coverage: $(VENV)/.dev-ready ## Every test, with line and branch coverage
	$(BIN)/pytest -n $(JOBS) --cov --cov-report=term $(PYTEST_ARGS)

demo: $(VENV)/.run-ready ## Run an operator and its pods on the embedded control plane; CI=1 exits at the end
	$(BIN)/python examples/demo.py

bench: $(VENV)/.dev-ready ## Measure CPU per operation; `make bench scale` shows how costs grow
	$(BIN)/python -m bench $(filter-out bench,$(MAKECMDGOALS)) $(if $(PLOT),--plot $(PLOT))

scale:
	@:

dashboard: ## Rebuild the front end of the dashboard; requires Node.js 20 and npm
	cd dashboard && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent build

screenshots: $(VENV)/.dev-ready ## Take the pictures of docs/dashboard.md again
	KUBEWRIGHT_SCREENSHOTS=docs/images $(BIN)/pytest -q tests/dashboard/browser/test_browser_screenshots.py

docs: $(VENV)/.docs-ready ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

release-check: $(VENV)/.dev-ready ## Build twice, install from the wheel, quick start, SBOM, licenses, types, surface
	$(BIN)/python tools/release_check.py

diagrams: $(VENV)/.dev-ready ## Render new diagrams of docs/ to SVG; requires Chromium and npm
	$(BIN)/python tools/diagrams.py

format: $(VENV)/.dev-ready ## Format the code and apply automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove build artifacts and the virtual environment
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .coverage build dist

.PHONY: help lint test quick attack coverage demo bench scale dashboard screenshots docs release-check diagrams format clean
