# Two commands do everything on a fresh machine: `make reproduce` and `make test`.

PYTHON ?= python3
OUT ?= reproduction
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SHELL := /bin/bash
PEERS := .venv-peers

.PHONY: help reproduce reproduce-full test lint types contracts unit unit-ray coverage bench bench-replay lock clean

help: ## Say what can be made.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

NATIVE := setup.py $(wildcard src/needreplay/replay/native/*.[ch])

$(READY): requirements.lock pyproject.toml $(NATIVE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "needreplay needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@echo "Making the environment in $(VENV) from requirements.lock (about a minute, once)."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

reproduce: $(READY) ## Make every figure at a quick size and one page with all of them.
	@$(BIN)/needreplay reproduce --size quick --out $(OUT)

reproduce-full: $(READY) ## Make every figure at full size (all presets, more trials).
	@$(BIN)/needreplay reproduce --size full --out $(OUT)-full

test: lint types contracts unit unit-ray coverage ## Run lint, types, contracts and all tests.

lint: $(READY) ## Check style.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY) ## Check types.
	@$(BIN)/mypy

contracts: $(READY) ## Check which room imports which.
	@$(BIN)/lint-imports

unit: $(READY) ## Run the tests on compiled kernels.
	@$(BIN)/pytest -n 2

unit-ray: $(READY) ## Run the tests on a real Ray cluster of two nodes, started here.
	@$(BIN)/pytest -m ray tests/sweeps/engines

coverage: $(READY) ## Run the rules' and agents' tests uncompiled, and hold their coverage at 95%.
	@NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n 2 tests/rules tests/tabular \
		--cov=needreplay.rules --cov=needreplay.tabular --cov-fail-under=95 --cov-report=term-missing:skip-covered

bench: $(READY) ## Measure speed as ratios to named peers.
	@for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

bench-replay: $(PEERS)/.ready ## Measure the replay memory against cpprb, tianshou and stable-baselines3.
	@$(PEERS)/bin/needreplay bench replay

$(PEERS)/.ready: requirements-peers.lock pyproject.toml $(NATIVE)
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-peers.lock
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

lock: ## Pin every package anew (needs uv).
	uv pip compile pyproject.toml --group dev --extra deep --extra minatar --extra atari --extra tensorboard --extra ray \
		--constraint <(echo 'torch==2.13.0') --universal --python-version 3.11 --no-header --no-annotate -o requirements.lock
	@# torch's own wheels name the CUDA packages they need; a CPU build needs none.
	sed -i -E '/^(nvidia-|cuda-|triton)/d' requirements.lock

clean: ## Remove the environment and everything that was made.
	rm -f src/needreplay/replay/native/*.so
	rm -rf build $(VENV) $(PEERS) reproduction reproduction-full .mypy_cache .ruff_cache .hypothesis .import_linter_cache
