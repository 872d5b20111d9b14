# Everything runs from .venv, which `make venv` builds from pyproject.toml and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# Whole files go to a worker, in the order that tests/conftest.py gives them.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Tests start many processes, which would compile the sources again each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: venv demo test suite test-slow test-browser lint bench docs clean

venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "thurbo needs Python 3.11 or newer"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: venv
	$(BIN)/thurbo demo

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Types are checked while tests run: alone, they would leave the other cores idle.
test: venv
	$(MAKE) --no-print-directory --jobs 2 lint suite

suite: venv
	$(PYTEST) --durations 15

# As users compile, which `test` does not: the longer statistical work, numerical tests once more, and new examples for
# tests that draw theirs.
test-slow: venv
	THURBO_TEST_OPTIMISED=1 $(PYTEST) -m 'slow or numerical or hypothesis'

# Pages in Chromium. Installs Playwright, and as root on Debian the browser; where it may not, it says how and leaves the tests out.
test-browser: venv
	@$(BIN)/python -m tests.browser.install; status=$$?; \
	if [ $$status -eq 0 ]; then THURBO_TEST_OPTIMISED=1 $(BIN)/python -m pytest -m browser --durations 5 tests/browser; \
	elif [ $$status -ne 3 ]; then exit $$status; fi

bench: venv
	$(BIN)/python -m benchmarks.truncnorm
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.epochs --quick

# -E: names that moved to another page would count as documented twice. Examples run again only if they changed.
docs: venv
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/python -m sphinx -E -W -b html docs docs/_build/html

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache
