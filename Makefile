# Start with `make demo` and `make test`. Requirements: Python >= 3.10 and access to a package index.
# Packages are installed into .venv, in the versions pinned by constraints.txt.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --constraint constraints.txt
EDITABLE := --no-build-isolation --editable
SPREAD := --numprocesses auto --dist loadfile
PATIENT := OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=0
PYTHONS ?= 3.10 3.11 3.12 3.13
BARE := 'pytest>=8' 'hypothesis>=6.100'
CORE := tests/exact tests/detect/box_tree/test_box_tree.py tests/detect/common/test_brute_force.py -m small
UNCOMPILED := tests/exact tests/deform tests/detect tests/contact tests/world tests/published tests/mesh/test_prepare.py
BOUNDS_CHECKED := $(UNCOMPILED) tests/backend tests/bodies/test_soft_body.py

.PHONY: help demo test test-all test-wheel test-minimal test-pythons test-cuda docs lint format lock bench clean

help:
	@echo "make demo          install, run the demo, print the result and the path of the picture"
	@echo "make test          install, then lint, format check, types, tests (at most 10 minutes on 2 cores)"
	@echo "make test-all      the same and the long tests: kills, experiments, cold warm-up, stress (over an hour)"
	@echo "make test-wheel    tests against the built wheel, outside the source tree"
	@echo "make test-minimal  the exact core with the oldest declared dependencies"
	@echo "make test-pythons  the exact core with the newest dependencies, on every available Python of PYTHONS=..."
	@echo "make test-cuda     CUDA kernels without a GPU: simulator and compilation (installs large packages)"
	@echo "make docs          build the pages into docs/_build; warnings are errors"
	@echo "make bench         run all benchmarks; 'python -m benchmarks NAME' runs one"
	@echo "make format        format and fix with ruff"
	@echo "make lock          pin the newest versions of all dependencies in constraints.txt"
	@echo "make clean         remove .venv and tool caches"

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
	$(PATIENT) $(BIN)/impinge warmup
	$(PATIENT) $(BIN)/python -m pytest $(SPREAD) -m "not slow and not cuda"
	$(PATIENT) NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -q $(SPREAD) $(BOUNDS_CHECKED) -m "small and not medium and not slow"
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q $(SPREAD) $(UNCOMPILED) -m tiny

test-all: test
	$(PATIENT) NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -q $(SPREAD) $(BOUNDS_CHECKED) -m "medium and not slow"
	$(BIN)/python -m pytest -m slow

test-wheel: $(VENV)/ready
	rm -rf dist/wheel && mkdir -p dist/wheel/away
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist/wheel .
	$(BIN)/python -m zipfile -e dist/wheel/*.whl dist/wheel/installed
	cp -r tests docs examples benchmarks pyproject.toml *.md dist/wheel/away
	cd dist/wheel/away && $(PATIENT) PYTHONPATH=$(CURDIR)/dist/wheel/installed $(CURDIR)/$(BIN)/python -m pytest $(SPREAD) \
		-m "not slow and not cuda" --ignore tests/test_packaging.py --ignore tests/test_style.py \
		--ignore tests/test_architecture.py --ignore tests/test_papers_page.py --ignore tests/typing

test-minimal: $(VENV)/ready
	@$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python dist/minimal
	$(BIN)/uv pip install --quiet --python dist/minimal/bin/python --resolution lowest-direct . $(BARE)
	$(PATIENT) dist/minimal/bin/python -m pytest -q $(CORE)

test-pythons: $(VENV)/ready
	@$(BIN)/python -m pip install --quiet uv
	for version in $(PYTHONS); do \
		$(BIN)/uv venv --quiet --clear --python $$version dist/python$$version && \
		$(BIN)/uv pip install --quiet --python dist/python$$version/bin/python . $(BARE) && \
		$(PATIENT) dist/python$$version/bin/python -m pytest -q $(CORE) || exit 1; \
	done

$(VENV)/ready-cuda: $(VENV)/ready
	@$(PIP) $(EDITABLE) '.[dev,cuda]'
	@touch $@

test-cuda: $(VENV)/ready-cuda
	NUMBA_ENABLE_CUDASIM=1 NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -m cuda -k simulator
	$(BIN)/python -m pytest -q -m cuda -k ptx

docs: $(VENV)/ready
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs docs/_build
	@echo "open docs/_build/index.html"

bench: $(VENV)/ready
	$(BIN)/python -m benchmarks

format: $(VENV)/ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: $(VENV)/ready
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --universal --python-version 3.10 --quiet --no-header --no-annotate --no-emit-index-url \
		--extra all --extra dev --extra cuda --extra bench --upgrade pyproject.toml --output-file constraints.txt

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache  .hypothesis demo-output dist docs/_build docs/results
