# Development tasks; start with make demo or make test. Each creates the environment it needs, and is quick if that is up to date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes that run tests side by side; 0 runs them in one. More than cores, because many tests wait for servers and clocks.
WORKERS ?= 3
.DEFAULT_GOAL := help
# Seconds after which a test is taken to hang: it fails, with what each thread was doing.
TIMEOUT ?= 600
# The tests start hundreds of processes; without compiled files each would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo pipeline-demo test check unit slow chaos faults deep series golden references docs pins versions release-check bench soak load clean mutation integrations

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# Packages are installed again when pyproject.toml has changed; those of the demonstration as requirements/demo.txt pins them.
$(VENV)/.demo: pyproject.toml requirements/demo.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "auditor needs Python 3.11 or later: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/demo.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

$(VENV)/.pipeline: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "auditor needs Python 3.11 or later: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[pipeline,postgres]'
	touch $@

$(VENV)/.test: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "auditor needs Python 3.11 or later: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@ $(VENV)/.demo $(VENV)/.pipeline $(VENV)/.docs

$(VENV)/.docs: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "auditor needs Python 3.11 or later: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

$(VENV)/.release: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "auditor needs Python 3.11 or later: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[release]'
	touch $@ $(VENV)/.docs

demo: $(VENV)/.demo ## Audit real data, damaged in typical ways, in two embedded databases
	$(BIN)/auditor demo || test $$? -eq 1

pipeline-demo: $(VENV)/.pipeline ## Replicate from a private MySQL or MariaDB into PostgreSQL and DuckDB on Spark, and audit both
	$(BIN)/auditor pipeline demo

test: check unit ## Run all checks, and the tests on every available engine

check: $(VENV)/.test ## Check style, types and imports between packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.test ## Run the tests on every available engine
	scripts/engines.sh
	$(BIN)/pytest -n $(WORKERS) --durations=20 --timeout $(TIMEOUT)

slow: $(VENV)/.test ## Run the tests including the slow ones, and the mutation check
	scripts/engines.sh
	$(BIN)/pytest -n $(WORKERS) --durations=20 --slow
	$(MAKE) mutation

mutation: $(VENV)/.test ## Change the pure packages in sampled places for 20 minutes, and name what no quick test notices (MUTATION='--seed 2')
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutation]'
	$(BIN)/python scripts/mutation.py --minutes 20 --most-survivors 40 $(MUTATION)

chaos: $(VENV)/.test ## Kill everything a pipeline consists of while it replicates 500,000 changes (CHAOS='--chaos-events 50000' for fewer)
	scripts/engines.sh
	$(BIN)/pytest -n 0 -s --chaos tests/chaos $(CHAOS)
	$(MAKE) faults

faults: $(VENV)/.test ## Inject faults into a pipeline, and write what each audit says of them into docs/faults.md (FAULTS='-k lost' for some)
	scripts/engines.sh
	$(BIN)/pytest -n 0 -s --chaos tests/faults $(FAULTS)

# Each in an environment of its own, because their dependencies do not agree with each other's.
build/integrations/airflow: containers/airflow/pyproject.toml
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check --editable containers/airflow
	touch $@

build/integrations/dagster: containers/dagster/pyproject.toml pyproject.toml
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check --editable . --editable containers/dagster
	touch $@

# Later versions of dbt-core 1 and 2 fetch a part of theirs from elsewhere while they are installed.
build/integrations/dbt:
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check 'dbt-core==1.10.*' 'dbt-duckdb==1.9.*'

build/integrations/openlineage:
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check 'openlineage-python>=1.40,<2'

integrations: $(VENV)/.test $(addprefix build/integrations/,airflow dagster dbt openlineage) ## Install Airflow, Dagster, dbt and OpenLineage's client, and try there what is for them
	$(BIN)/pytest -n 0 --slow tests/integrations

deep: $(VENV)/.test ## Run Hypothesis with many more examples, 10,000 random audits, 1,002 through a proxy that switches sessions, and 300 regression scripts of MariaDB (DEEP='--deep-seed 2' for others)
	scripts/engines.sh
	scripts/regression.sh
	$(BIN)/pytest --deep tests/engines/test_canonical.py tests/engines/test_time_rounding.py tests/pairs/test_full_decimals.py \
		tests/engines/test_filters.py tests/engines/test_switched_sessions.py tests/deep tests/scripts $(DEEP)

series: $(VENV)/.test ## Run what takes an hour each: 10,000 merges with faults among them, 10,000 audits beside a faulty pipeline, 1,000 versions of lake tables
	scripts/engines.sh
	$(BIN)/pytest -n 0 -s --slow --deep tests/pipeline/test_bisect.py -k long_chain
	$(BIN)/pytest -n 0 -s --slow --deep tests/pipeline/test_history_under_load.py
	$(BIN)/pytest -n 0 -s --slow --deep tests/engines -k "sums and thousand"

golden: $(VENV)/.test ## Update the golden SQL files; read the changes before you commit them
	$(BIN)/pytest --update-golden tests/unit/test_golden.py

references: $(VENV)/.test ## Update the references of commands and settings in docs/
	$(BIN)/python -m scripts.references

docs: $(VENV)/.docs ## Build the documentation as a site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

pins: pyproject.toml ## Pin what the demonstration and the images install, to the newest versions and their hashes
	$(PYTHON) -m venv build/uv
	build/uv/bin/pip install --quiet uv
	for pins in demo:demo service:service,mysql,postgres,redshift,s3 \
			spark:service,demo,connect,pipeline,mysql,postgres,redshift,s3 \
			trial:service,demo,connect,pipeline,mysql,postgres,redshift,s3,trial; do \
		build/uv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
			--custom-compile-command 'make pins' $$(echo $${pins#*:} | sed -E 's/[^,]+/--extra &/g; s/,/ /g') \
			--output-file requirements/$${pins%%:*}.txt pyproject.toml; \
	done

versions: $(VENV)/.test ## Run the tests of each engine on each version that can be had, and write docs/versions.md (VERSIONS="--only 'postgres 12'")
	scripts/engines.sh
	$(BIN)/python -m scripts.versions $(VERSIONS)

release-check: $(VENV)/.release ## Build what would be released, and try it in environments of its own
	$(BIN)/python -m scripts.release_check

soak: $(VENV)/.test ## Let a pipeline, audits and a service work for hours while all around them changes (HOURS=24)
	scripts/engines.sh
	$(BIN)/python -m benchmarks.soak --hours $(or $(HOURS),2)

bench: $(VENV)/.test ## Measure the methods and other tools into benchmarks/RESULTS.md (BENCH='--quick' for a trial)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	scripts/engines.sh
	$(BIN)/python -m benchmarks $(BENCH)

load: $(VENV)/.test ## Measure the service under load into benchmarks/RESULTS.md (BENCH='--quick' for a trial)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	scripts/engines.sh
	$(BIN)/python -m benchmarks --only load $(BENCH)

clean: ## Remove the environment and all generated files
	rm -rf $(VENV) demo-data build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
