# Two commands from nothing: `make train` and `make test`. Both make .venv first.

PYTHON ?= python3
# Installed before everything else, so that no dependency chooses another torch. `make TORCH=torch train` takes the newest.
TORCH ?= torch==2.13.0
BIN := .venv/bin
READY := .venv/ready-$(firstword $(shell echo "$(TORCH)" | cksum))

.PHONY: train test lint clean

train: $(READY)
	$(BIN)/gmi-drl train --task ant --iterations 100000 --set time_limit_s=120

test: lint
	$(BIN)/pytest

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache *.egg-info

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet --editable '.[dev]'
	rm -f .venv/ready-*
	touch $@
