# Two commands do everything on a fresh machine: `make reproduce` and `make test`.

PYTHON ?= python3
OUT ?= reproduction
FUZZ_SECONDS ?= 600
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers
KERNELS := setup.py $(wildcard src/needreplay/replay/_kernels/*.pyx src/needreplay/replay/_kernels/*.pxd src/needreplay/replay/_kernels/*.h)
# Files are read as UTF-8 whatever the locale.
export PYTHONUTF8 := 1
# Compiled kernels and fonts are cached in HOME; where it cannot be written, in the environment.
ifneq ($(shell mkdir -p "$$HOME/.cache" 2> /dev/null && test -w "$$HOME/.cache" && echo yes),yes)
export NUMBA_CACHE_DIR := $(CURDIR)/$(VENV)/kernels
export MPLCONFIGDIR := $(CURDIR)/$(VENV)/matplotlib
endif
# worksteal: neighboring tests, which share kernels and fixtures, run in one process until another is idle.
PYTEST := $(BIN)/pytest -n auto --maxprocesses 8 --dist worksteal

.PHONY: help reproduce reproduce-full test lint types layers unit unit-ray unit-sb3 unit-others uncompiled sanitize test-portable docs tables tutorials screenshots dist test-dist fuzz \
	bench bench-replay lock clean

help: ## Show this list.
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /  make \1\t/' | expand -t 24

# $(call environment,FOLDER,LOCK): a virtual environment of exactly the files whose hashes are in the lock.
# A wheel of torch in a folder of PIP_FIND_LINKS comes first, since pip alone would prefer PyPI's. PyPI's torch for
# Linux needs NVIDIA's libraries, a CPU build does not: they have their own lock.
PIP_INSTALL = bin/python -m pip install -qq --disable-pip-version-check --no-deps
LOCKED = $(PIP_INSTALL) --require-hashes --only-binary :all:

define environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "needreplay needs Python 3.11 or newer. Choose one: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@echo "Creating $(1) from $(2). This takes a few minutes, once."
	@$(PYTHON) -m venv $(1)
	@sed -n '/^torch==/,/[^\\]$$/p' $(2) > $(1)/torch.lock
	@$(1)/$(LOCKED) --no-index -r $(1)/torch.lock 2> /dev/null || true
	@$(1)/$(LOCKED) -r $(2)
	@if grep -qi '^Requires-Dist: nvidia' $(1)/lib/python*/site-packages/torch-*.dist-info/METADATA; then \
		$(1)/$(LOCKED) -r requirements-cuda.lock; fi
	@$(1)/$(PIP_INSTALL) --no-build-isolation -e .
	@$(1)/bin/python -m pip check -q
	@touch $(1)/.ready
endef

$(READY): requirements.lock requirements-cuda.lock pyproject.toml $(KERNELS)
	$(call environment,$(VENV),requirements.lock)

$(PEERS)/.ready: requirements-peers.lock requirements-cuda.lock pyproject.toml $(KERNELS)
	$(call environment,$(PEERS),requirements-peers.lock)

reproduce: $(READY) ## Make every figure at a quick size, and one page with all of them.
	@$(BIN)/needreplay reproduce --size quick --out $(OUT)

reproduce-full: $(READY) ## Make every figure at full size (all presets, more trials).
	@$(BIN)/needreplay reproduce --size full --out $(OUT)-full

test: lint types layers unit unit-ray uncompiled ## Run every check and test (the next six lines).

lint: $(READY) ## Check style.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY) ## Check types.
	@$(BIN)/mypy

layers: $(READY) ## Check which package imports which.
	@$(BIN)/lint-imports

unit: $(READY) ## Run the tests.
	@$(PYTEST)

unit-ray: $(READY) ## Run the tests that need a Ray cluster: two nodes, started on this machine.
	@$(BIN)/pytest -m ray tests/sweeps tests/test_tutorials.py tests/distributed

# Fits and their simulations take minutes without the compiler; their tests run compiled alone.
SLOW_UNCOMPILED := fit rivals

uncompiled: $(READY) ## Run the tests of the laboratory's kernels without numba's compiler; at least 95% of equations and tabular/ is covered.
	@NUMBA_DISABLE_JIT=1 $(PYTEST) tests/rules tests/tabular tests/studies/cliffwalk/test_replay.py \
		$(SLOW_UNCOMPILED:%=--ignore=tests/tabular/test_%.py) --cov=needreplay.equations --cov=needlab.tabular --cov-fail-under=95 --cov-report=term-missing:skip-covered

# A build of its own, since sanitized code runs only where the sanitizers' libraries were loaded first. Python and numpy
# keep memory to the end, so leaks are not looked for; sanitizers need more memory than one test allows.
SANITIZED := build/sanitized
ASAN = LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0:halt_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

sanitize: $(READY) ## Run the tests of the library's kernels with AddressSanitizer and UndefinedBehaviorSanitizer (gcc).
	@mkdir -p $(SANITIZED)
	@cp -R src setup.py pyproject.toml README.md LICENSE $(SANITIZED)
	@rm -f $(SANITIZED)/src/needreplay/replay/_kernels/*.so
	@cd $(SANITIZED) && NEEDREPLAY_SANITIZE=address,undefined $(CURDIR)/$(BIN)/python setup.py -q build_ext --inplace
	@$(ASAN) PYTHONPATH=$(CURDIR)/$(SANITIZED)/src $(BIN)/pytest tests/replay --deselect tests/replay/test_attacks.py \
		--deselect tests/replay/test_folder.py::test_larger_than_the_memory_it_is_allowed

# On the path before the locked version; the rest is that of the environment.
SB3_OLDEST := 2.7.0

unit-sb3: $(READY) ## Run the tests of the Stable-Baselines3 classes with its oldest supported version.
	@test -d $(VENV)/sb3-$(SB3_OLDEST) || $(VENV)/$(PIP_INSTALL) --target $(VENV)/sb3-$(SB3_OLDEST) \
		stable-baselines3==$(SB3_OLDEST) sb3-contrib==$(SB3_OLDEST)
	@PYTHONPATH=$(CURDIR)/$(VENV)/sb3-$(SB3_OLDEST) $(PYTEST) tests/integrations

OTHERS = torchrl==0.14.1 tensordict==0.14.3 jax==0.10.2
unit-others: $(READY) ## Run the page on TorchRL and JAX, in an environment of its own.
	@test -d $(VENV)/others || { $(PYTHON) -m venv $(VENV)/others && $(VENV)/others/bin/pip install -q \
		$$(grep -oE "^torch==[^ ]*" requirements.lock) numpy gymnasium pytest hypothesis $(OTHERS); }
	@PYTHONPATH=src $(VENV)/others/bin/python -m pytest tests/integrations/test_torchrl_and_jax.py

# The CPU features that numpy would choose between on this machine.
DISPATCH = from numpy._core import _multiarray_umath as m; print(*(f for f in m.__cpu_dispatch__ if m.__cpu_features__[f]))

test-portable: $(READY) ## Run the tests with numpy, numba and torch restricted to what every CPU has.
	@NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c '$(DISPATCH)')" NUMBA_CPU_NAME=generic \
		ATEN_CPU_CAPABILITY=default $(MAKE) unit uncompiled

docs: $(READY) ## Build the site: site/index.html opens without a server and loads nothing from the network.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict && echo "site/index.html"

tables: $(READY) ## Write the tables of numbers in the README and the docs from results.
	@$(BIN)/python tools/tables.py

tutorials: $(READY) ## Run the tutorials and write their pages: what they print and draw.
	@$(BIN)/python tools/tutorials.py

screenshots: $(READY) ## Photograph the pages of needreplay with the real browser, for the docs.
	@$(BIN)/python tools/screenshots.py

dist: $(READY) ## Build dist/: the sdist, and from it the wheel.
	@$(BIN)/python tools/dist.py

test-dist: $(READY) ## Install the package with each Python found here, and run the README's code.
	@$(BIN)/pytest -m dist tests/test_dist.py

fuzz: $(READY) ## Attack files, arguments, signals and sequences of calls for FUZZ_SECONDS (600); print counts.
	@$(BIN)/python tools/fuzz.py $(FUZZ_SECONDS)

bench: $(READY) ## Measure speed as ratios to named peers.
	@for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

bench-replay: $(PEERS)/.ready ## Measure the replay buffer against cpprb, tianshou and Stable-Baselines3.
	@$(PEERS)/bin/python benchmarks/bench_replay.py

lock: ## Pin every package again, with hashes (needs uv).
	@$(PYTHON) tools/lock.py

clean: ## Remove the environments and everything that was made.
	rm -f src/needreplay/replay/_kernels/*.so src/needreplay/replay/_kernels/*.pyd
	rm -rf build dist site $(VENV) $(PEERS) reproduction reproduction-full .mypy_cache .ruff_cache .hypothesis .import_linter_cache
