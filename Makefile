# What each target promises: CONTRIBUTING.md.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := fedhpa webhook metrics_adapter controller certs testbed demo benchmarks tests

.PHONY: venv lint test nightly bench crds docs real-plane demo image lock
.DEFAULT_GOAL := test

# Container images like to set it. Here Python is started dozens of times a minute: what was compiled is kept.
unexport PYTHONDONTWRITEBYTECODE

# Nothing is compiled ahead: Python does that with what is used, which takes seconds instead of half a minute.
$(VENV)/.installed: lock/dev.txt pyproject.toml
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r lock/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --no-build-isolation --editable .
	@touch $@

venv: $(VENV)/.installed
	@:

lint: venv
	@$(BIN)/ruff check $(PACKAGES)
	@$(BIN)/ruff format --check $(PACKAGES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports

test: venv
	@$(BIN)/python -m testbed.real.testrun

# The tests that the suite has in a short form, in full: broken requests by the hundred thousand, every time zone,
# ten minutes of churn around the adapter, and on real planes an hour beside a hostile member and every outage.
# Then all tests of real planes on a Kubernetes two minors older. A failure of one run does not stop the next.
OLDER := FEDHPA_KUBERNETES=1.34 FEDHPA_REAL_PLANE=require $(BIN)/python -m testbed.real.testrun -n 3
nightly: venv
	@FEDHPA_NIGHTLY=1 FEDHPA_REAL_PLANE=require $(BIN)/python -m testbed.real.testrun -n 3 -m nightly; code=$$?; \
	$(OLDER) tests/real || code=$$?; \
	FEDHPA_NIGHTLY=1 $(OLDER) -m nightly tests/real/test_chart.py || code=$$?; \
	exit $$code

bench: venv
	@$(BIN)/python -m benchmarks

crds: venv
	@$(BIN)/fedhpa crds > charts/fedhpa/files/crds/autoscaling.karmada.io.yaml
	@$(BIN)/python -c "from fedhpa.admission import crd; print(crd.render((crd.CLUSTER,)), end='')" > charts/fedhpa/files/crds/cluster.karmada.io.yaml
	@$(BIN)/python -c "from fedhpa.api.rights.chart import chart_file; print(chart_file(), end='')" > charts/fedhpa/files/rights.yaml

docs: venv
	@$(BIN)/python -m testbed.reference

# `make real-plane KUBERNETES=1.34` builds that Kubernetes instead.
real-plane: venv
	@$(if $(KUBERNETES),FEDHPA_KUBERNETES=$(KUBERNETES)) $(BIN)/python -m testbed.real build

PLANE ?= embedded
SCENARIO ?= member-lost
# After Ctrl-C make ends by the signal itself. A failed recipe would only add a line "make: *** Error".
demo: venv
	@trap 'interrupted=yes' INT; $(BIN)/python -m demo --plane=$(PLANE) --scenario=$(SCENARIO) || { code=$$?; [ -n "$$interrupted" ] || exit $$code; }

# `make image PUSH=1` pushes it: the local store of docker keeps no image for several platforms.
IMAGE ?= fedhpa/fedhpa:$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
PLATFORMS ?= linux/amd64,linux/arm64
image:
	@docker buildx build --platform=$(PLATFORMS) --tag=$(IMAGE) $(if $(PUSH),--push --provenance=true --sbom=true) .

# Pins every dependency with its hashes; needs uv only here, so it is no dependency of the project.
lock:
	@uv pip compile pyproject.toml --extra dev --generate-hashes --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 --no-header -q -o lock/dev.txt
	@uv pip compile pyproject.toml --generate-hashes --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 --no-header -q -c lock/dev.txt -o lock/runtime.txt
	@echo hatchling | uv pip compile - --generate-hashes --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 --no-header -q -c lock/dev.txt -o lock/build.txt
