# What each target promises: CONTRIBUTING.md. `make` prints the text behind ## of each target.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := fedhpa webhook metrics_adapter controller certs testbed demo benchmarks tests

.PHONY: help venv lint test nightly bench crds docs real-plane demo image wheel plugin lock
.DEFAULT_GOAL := help

# Container images like to set it. Here Python is started dozens of times a minute: what was compiled is kept.
unexport PYTHONDONTWRITEBYTECODE

help: ## Prints the targets.
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

# Nothing is compiled ahead: Python does that with what is used, which takes seconds instead of half a minute.
$(VENV)/.installed: lock/dev.txt pyproject.toml
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r lock/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --no-build-isolation --editable .
	@touch $@

venv: $(VENV)/.installed ## Creates or updates .venv.
	@:

lint: venv ## Runs ruff, mypy --strict and import-linter.
	@$(BIN)/ruff check $(PACKAGES)
	@$(BIN)/ruff format --check $(PACKAGES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports

test: venv ## Runs the whole suite.
	@$(BIN)/python -m testbed.real.testrun

# The tests that the suite has in a short form, in full: broken requests by the hundred thousand, every time zone,
# ten minutes of churn around the adapter, and on real planes an hour beside a hostile member and every outage.
# Then all tests of real planes on a Kubernetes two minors older. A failure of one run does not stop the next.
OLDER := FEDHPA_KUBERNETES=1.34 FEDHPA_REAL_PLANE=require $(BIN)/python -m testbed.real.testrun -n 3
nightly: venv ## Runs for hours what the suite has in a short form, and an older Kubernetes.
	@FEDHPA_NIGHTLY=1 FEDHPA_REAL_PLANE=require $(BIN)/python -m testbed.real.testrun -n 3 -m nightly; code=$$?; \
	$(OLDER) tests/real || code=$$?; \
	FEDHPA_NIGHTLY=1 $(OLDER) -m nightly tests/real/test_chart.py || code=$$?; \
	exit $$code

bench: venv ## Runs the benchmarks against their budget.
	@$(BIN)/python -m benchmarks

crds: venv ## Writes the generated CRDs of the chart.
	@$(BIN)/python -m testbed.reference.definitions

docs: venv ## Writes the generated part of docs/reference, the values of the chart, the JSON schemas and docs/backtest.svg.
	@$(BIN)/python -m testbed.reference
	@$(BIN)/python -m tests.support.office_day

# `make real-plane KUBERNETES=1.34` builds that Kubernetes instead.
real-plane: venv ## Builds or finds the programs of the real planes.
	@$(if $(KUBERNETES),FEDHPA_KUBERNETES=$(KUBERNETES)) $(BIN)/python -m testbed.real build

PLANE ?= embedded
SCENARIO ?= member-lost
# After Ctrl-C make ends by the signal itself. A failed recipe would only add a line "make: *** Error".
demo: venv ## Runs the demo. SCENARIO and PLANE select another one.
	@trap 'interrupted=yes' INT; $(BIN)/python -m demo --plane=$(PLANE) --scenario=$(SCENARIO) || { code=$$?; [ -n "$$interrupted" ] || exit $$code; }

# `make image PUSH=1` pushes it: the local store of docker keeps no image for several platforms.
IMAGE ?= fedhpa/fedhpa:$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
PLATFORMS ?= linux/amd64,linux/arm64
image: ## Builds the container image. IMAGE names it, PUSH=1 pushes it.
	@docker buildx build --platform=$(PLATFORMS) --tag=$(IMAGE) $(if $(PUSH),--push --provenance=true --sbom=true) .

# It has the commands and the processes; `pip install` it for `fedhpa`, also as the kubectl plugin `kubectl fedhpa`.
wheel: venv ## Builds the Python package into dist.
	@$(BIN)/python -m hatchling build -t wheel -d dist

# The kubectl plugin of krew: `kubectl-fedhpa` with an interpreter of its own, so it needs no Python. It runs on the platform and the
# C library of the machine that builds it, or a newer one.
PLATFORM := $(shell uname -s | tr A-Z a-z)-$(shell uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
PARTS := --collect-all=fedhpa --collect-all=tzdata $(addprefix --collect-submodules=,controller metrics_adapter webhook certs)
plugin: wheel ## Builds the kubectl plugin of this platform into dist.
	@rm -rf build/plugin && $(PYTHON) -m venv build/plugin
	@build/plugin/bin/pip install -q --disable-pip-version-check --require-hashes --only-binary=:all: -r lock/runtime.txt
	@build/plugin/bin/pip install -q --disable-pip-version-check --require-hashes --only-binary=:all: -r lock/plugin.txt
	@build/plugin/bin/pip install -q --disable-pip-version-check --no-deps --no-index --find-links=dist fedhpa
	@cd build/plugin && bin/pyinstaller --noconfirm --log-level=ERROR --name=kubectl-fedhpa --copy-metadata=fedhpa $(PARTS) \
		$(CURDIR)/.github/krew/kubectl_fedhpa.py
	@cp LICENSE build/plugin/dist/kubectl-fedhpa/
	@tar -czf dist/kubectl-fedhpa-$(PLATFORM).tar.gz -C build/plugin/dist kubectl-fedhpa

# Pins every dependency with its hashes; needs uv only here, so it is no dependency of the project.
lock: ## Pins the dependencies again. Needs uv.
	@uv pip compile pyproject.toml --extra dev --generate-hashes --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 --no-header -q -o lock/dev.txt
	@uv pip compile pyproject.toml --generate-hashes --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 --no-header -q -c lock/dev.txt -o lock/runtime.txt
	@echo "pyinstaller>=6.22" | uv pip compile - --generate-hashes --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 --no-header -q -c lock/dev.txt -o lock/plugin.txt
	@echo hatchling | uv pip compile - --generate-hashes --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 --no-header -q -c lock/dev.txt -o lock/build.txt
