# From nothing: `make train`, `make test` and `make guard`. All make .venv first.

PYTHON ?= python3
# Installed before everything else, so that no dependency chooses another torch. `make TORCH=torch train` takes the newest.
TORCH ?= torch==2.13.0
# Samples per update of `make train`. `make KEEP= train` where they do not divide among the devices.
KEEP ?= --keep-batch 8192
BIN := .venv/bin
READY := .venv/ready-$(firstword $(shell echo "$(TORCH)" | cksum))
# Only tests need it: with its assets 600 MB.
ENVPOOL := .venv/envpool
# Only tests need it: the oldest one that we support, which mjlab 1.6 asks for.
OLD_RSL_RL := .venv/rsl-rl-5.4/ready

.PHONY: train test lint guard report clean

train: $(READY)
	$(BIN)/gmi-drl plan --task ant --budget 30 $(KEEP)
	$(BIN)/gmi-drl train layout.yaml --iterations 100000 --set time_limit_s=90

# Two files at a time: most of their time goes into processes that import torch.
test: lint $(ENVPOOL) $(OLD_RSL_RL)
	$(BIN)/pytest --numprocesses 2 --dist loadfile

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Small runs of every benchmark with a bound: a speed that was halved fails here.
guard: $(READY)
	$(BIN)/gmi-drl bench --guard

report: $(READY)
	$(BIN)/python -m gmi_drl.bench.report

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache *.egg-info

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet --editable '.[dev]'
	rm -f .venv/ready-*
	touch $@

$(ENVPOOL): $(READY)
	$(BIN)/pip install --quiet --editable '.[envpool]' && touch $@ || echo 'envpool cannot be installed here: its tests are skipped'

$(OLD_RSL_RL): $(READY)
	rm -rf $(@D)
	$(BIN)/pip install --quiet --no-deps --target $(@D) rsl-rl-lib==5.4.2 && touch $@ || echo 'rsl-rl-lib 5.4 cannot be installed here: its test is skipped'
