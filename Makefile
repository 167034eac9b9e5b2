# Everything a newcomer needs: make demo, make test. Each creates its environment first, and is quick when there is nothing to do.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help
.PHONY: help demo test check unit slow deep golden bench load clean

help: ## What there is to make
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# The environment is made anew when what it must hold has changed.
$(VENV)/.demo: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "auditor needs Python 3.11 or later: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	touch $@

$(VENV)/.test: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "auditor needs Python 3.11 or later: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@ $(VENV)/.demo

demo: $(VENV)/.demo ## Audit real data, damaged the way pipelines damage it, in two embedded databases
	$(BIN)/auditor demo --verbose || test $$? -eq 1

test: check unit ## Everything: style, types, floors, and the tests on every engine that can run here

check: $(VENV)/.test ## Style, types and floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.test ## The tests, on every engine that can run here
	scripts/engines.sh
	$(BIN)/pytest

slow: $(VENV)/.test ## Also the tests that take long
	scripts/engines.sh
	$(BIN)/pytest --slow

deep: $(VENV)/.test ## Let Hypothesis look for counterexamples much longer
	scripts/engines.sh
	$(BIN)/pytest --deep tests/test_canonical_live.py

golden: $(VENV)/.test ## Write the golden SQL anew, to be read before it is committed
	$(BIN)/pytest --update-golden tests/test_golden.py

bench: $(VENV)/.test ## Measure the methods and the rivals; writes benchmarks/RESULTS.md (BENCH='--quick' for a first look)
	scripts/engines.sh
	$(BIN)/python -m benchmarks $(BENCH)

load: $(VENV)/.test ## Measure the service: many readers beside audits; goes into benchmarks/RESULTS.md (BENCH='--quick' for a first look)
	scripts/engines.sh
	$(BIN)/python -m benchmarks --only load $(BENCH)

clean: ## Remove the environment and everything made
	rm -rf $(VENV) demo-data build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
