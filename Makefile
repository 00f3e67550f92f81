# Everything a fresh clone needs: `make report`, `make test`. A virtual environment is made on first use.

PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3; do \
	if $$name -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$name; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-from-lock
TRACES := $(sort $(patsubst sample_traces/%/,%,$(wildcard sample_traces/*/)))

.DEFAULT_GOAL := help
.PHONY: help setup report test lint docs lock bench accuracy fuzz clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv from the lock file

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "kvcliff needs Python 3.11 or newer: none is on PATH (set PYTHON=...)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

report: $(STAMP) ## diagnose every sample trace into reports/
	@set -e; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	for trace in $(TRACES); do \
		$(BIN)/kvcliff diagnose sample_traces/$$trace --db "$$scratch/runs.duckdb" -o reports/$$trace --force; \
	done

test: $(STAMP) ## every check: format, lint, types, imports, SQL, docs, tests
	bash tests/check.sh

lint: $(STAMP) ## the static checks alone
	bash tests/check.sh static

docs: $(STAMP) ## write the generated parts of README.md and sql/README.md anew
	$(BIN)/cog -r -U README.md sql/README.md

lock: ## resolve requirements.lock anew from pyproject.toml (needs uv)
	uv pip compile --universal --generate-hashes --python-version 3.11 --no-annotate --no-header --upgrade \
		--no-emit-index-url --group dev pyproject.toml -o requirements.lock

bench: $(STAMP) ## speed and memory
	$(BIN)/python -m pytest -m benchmark -s $(wildcard tests/benchmarks/bench_*.py)

accuracy: $(STAMP) ## diagnoses against the truth of recordings
	$(BIN)/python -m pytest -m accuracy -s

fuzz: $(STAMP) ## long random inputs
	$(BIN)/python -m pytest -m fuzz

clean: ## remove what make made (not the reports)
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
