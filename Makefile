# From nothing: `make train`, `make test` and `make guard`. All make .venv first; `make playground` makes .playground,
# `make interop` an environment in .peers.

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
# An environment of its own, since MuJoCo Playground and JAX take 2.4 GB. Its tests in `make test` are skipped without.
PLAYGROUND := .playground/ready
PLAYGROUND_PACKAGE := examples/gmi_drl_playground

.PHONY: train ready test test-tools lint guard docs measure mutants report playground interop gpu-kernels clean

train: $(READY)
	$(BIN)/gmi-drl plan --task ant --budget 30 $(KEEP)
	$(BIN)/gmi-drl train layout.yaml --iterations 100000 --set time_limit_s=90

# The tests of scripts and tools.
TOOLS := tests/field tests/tools
# Three files at a time on two cores, since many tests wait for processes; in their order: by default xdist begins with
# those of most tests, and the longest tests come last.
PYTEST := $(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

# All that tests need.
ready: $(READY) $(ENVPOOL) $(OLD_RSL_RL)

# The package, its pages and examples.
test: lint $(ENVPOOL) $(OLD_RSL_RL)
	$(PYTEST) $(TOOLS:%=--ignore %)

# The scripts in benchmarks/ and tools/.
test-tools: $(READY)
	$(PYTEST) $(TOOLS)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Small runs of every benchmark with a bound: what fell far behind the other side fails here, and what fell to a sixth.
guard: $(READY)
	$(BIN)/gmi-drl bench --guard

# The documentation as a site, in site/, which opens without a network.
docs: $(READY)
	$(BIN)/python -m mkdocs build --quiet

# All results that are older than their code, in hours on a quiet machine; an interrupted one goes on.
# `make measure CASES="ant_step costs"` measures some.
measure: $(READY)
	$(BIN)/python -m tools.measure $(CASES); code=$$?; $(BIN)/python -m gmi_drl.benchmarks.report && exit $$code

# Hours on two cores; one that was interrupted goes on. docs/mutants.md has the score.
mutants: $(READY) $(ENVPOOL) $(OLD_RSL_RL)
	$(BIN)/python -m tools.mutants

report: $(READY)
	$(BIN)/python -m gmi_drl.benchmarks.report

playground: $(PLAYGROUND)
	.playground/bin/python -m pytest $(PLAYGROUND_PACKAGE)

# Real clients: mjlab, whose environment takes 2.3 GB and an hour on two cores, and others that are there. docs/interop.md.
interop: $(READY)
	$(PYTHON) benchmarks/peers/setup.py mjlab
	$(BIN)/python -m tools.interop

# What MuJoCo Warp compiles for our tasks on an H100 or H200, compiled here, where no GPU is needed, and packed to be
# carried there: docs/gpu_day.md. `make gpu-kernels TASKS=ant` makes those of some.
gpu-kernels: $(READY)
	WARP_CACHE_PATH=gpu_kernels $(BIN)/python -m tools.gpu_kernels $(TASKS)
	tar -C gpu_kernels --exclude='*.cu' --exclude=lto -cJf gpu_kernels.tar.xz .

clean:
	rm -rf site gpu_kernels gpu_kernels.tar.xz .venv .playground .mutants .mypy_cache .ruff_cache .pytest_cache .import_linter_cache *.egg-info

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

$(PLAYGROUND): pyproject.toml $(PLAYGROUND_PACKAGE)/pyproject.toml $(PLAYGROUND_PACKAGE)/constraints.txt
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet '$(TORCH)'
	$(@D)/bin/pip install --quiet --constraint $(PLAYGROUND_PACKAGE)/constraints.txt '$(TORCH)' --editable . \
		--editable '$(PLAYGROUND_PACKAGE)[test]'
	touch $@
