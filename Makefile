# Everything that a newcomer needs: `make demo` and `make test`. Only Python >= 3.10 and access to a package index
# are assumed. Packages go to .venv, in the versions that constraints.txt pins.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --constraint constraints.txt
EDITABLE := --no-build-isolation --editable
UNCOMPILED := tests/exact tests/deform tests/detect tests/contact tests/mesh/test_prepare.py
BOUNDS_CHECKED := $(UNCOMPILED) tests/backend tests/test_soft_body.py

.PHONY: help demo test test-all test-cuda lint format lock bench clean

help:
	@echo "make demo       install, run the main job, say what was found and where the picture is"
	@echo "make test       install, then lint, format check, types, tests (some 15 minutes on 2 cores)"
	@echo "make test-all   the same and the long tests (tens of minutes)"
	@echo "make test-cuda  prove the CUDA kernels without a GPU: simulator and compilation (installs large packages)"
	@echo "make bench      measure: start-up, the exact triangle test, pairs against other libraries (those installed)"
	@echo "make format     let ruff format and fix what it can"
	@echo "make lock       pin the newest versions of everything into constraints.txt"
	@echo "make clean      remove .venv and what tools left behind"

$(VENV)/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 10) and 'impinge needs Python 3.10 or newer; set PYTHON=...')"
	@echo "installing into $(VENV) (once) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) hatchling editables
	@$(PIP) $(EDITABLE) '.[dev]'
	@touch $@

demo: $(VENV)/ready
	@$(BIN)/impinge demo

lint: $(VENV)/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -m "not slow and not cuda"
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -q $(BOUNDS_CHECKED) -m "small and not slow"
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q $(UNCOMPILED) -m tiny

test-all: test
	$(BIN)/python -m pytest -m slow

$(VENV)/ready-cuda: $(VENV)/ready
	@$(PIP) $(EDITABLE) '.[dev,cuda]'
	@touch $@

test-cuda: $(VENV)/ready-cuda
	NUMBA_ENABLE_CUDASIM=1 NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -m cuda -k simulator
	$(BIN)/python -m pytest -q -m cuda -k ptx

bench: $(VENV)/ready
	$(BIN)/impinge bench

format: $(VENV)/ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: $(VENV)/ready
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --universal --python-version 3.10 --quiet --no-header --no-annotate --no-emit-index-url \
		--extra all --extra dev --extra cuda --extra bench --upgrade pyproject.toml --output-file constraints.txt

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output dist
