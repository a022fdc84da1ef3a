# Everything that is done with this checkout. A target makes what it needs by itself, in .venv.
# Needed beforehand: Python 3.11 or later, a Rust toolchain (https://rustup.rs) and, for Spark, Java 17 or later.

PYTHON ?= python3
SCRIPTS := .github/scripts
VENV := .venv

export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PATH := $(VIRTUAL_ENV)/bin:$(PATH)
# pyo3 then builds for this Python whoever calls cargo, so that nothing is compiled twice.
export PYO3_PYTHON := $(VIRTUAL_ENV)/bin/python

# The native module has the docstrings of its stub.
RUST := Cargo.toml Cargo.lock pyproject.toml python/tidegate/_tidegate.pyi \
	$(shell find rust -name '*.rs' -o -name Cargo.toml)
SOURCES := $(RUST) README.md $(shell find python/tidegate -name '*.py' -o -name '*.pyi')

export PIP_QUIET := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The environment holds the package once: as a user has it, or as a developer has it. One stamp removes the other.
RELEASE := $(VENV)/.release
DEVELOP := $(VENV)/.develop
# A developer's package without the tools.
MODULE := $(VENV)/.module

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install demo quick test lowest coverage loom aarch64 stress fuzz campaign options check prose audit format site bench claims wheel clean

help: ## Print this list.
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(RELEASE) ## Build the package for speed and install it in .venv, with its command and its Spark form.

# The build for tests takes half as long as that for speed; what is installed is taken.
demo: $(if $(wildcard $(RELEASE)),$(RELEASE),$(MODULE)) ## Join a year of flights and weather in Spark, then a live exchange; check rows, print times, draw.
	pip install --group demo
	$(SCRIPTS)/demo.sh

quick: $(DEVELOP) ## Run the core of each room: Rust unit tests, and Python tests that wait for nothing, with fewer random tries.
	$(SCRIPTS)/test_rust.sh --lib
	CAMPAIGN=0.2 $(SCRIPTS)/test_python.sh -m "not slow"

test: $(DEVELOP) ## Run all tests: format, lints, Rust, Python, command line and Spark; the benches are `make check`'s.
	$(SCRIPTS)/test.sh

lowest: $(VENV)/.pip ## Run the core Python tests with the lowest dependency versions that pyproject.toml allows.
	$(SCRIPTS)/test_lowest.sh

coverage: $(DEVELOP) ## Report the lines and the unsafe blocks that the tests without Spark reach.
	$(SCRIPTS)/coverage.sh

loom: ## Run the loom models: every interleaving of small cases of what threads share.
	$(SCRIPTS)/loom.sh

aarch64: ## Run the unit tests of loops and operators for 64-bit ARM in an emulator; says what it lacks.
	$(SCRIPTS)/aarch64.sh

stress: $(VENV)/.tools ## Run the gates under more threads than cores; gates, module and imports under sanitizers and valgrind.
	$(SCRIPTS)/stress.sh
	$(SCRIPTS)/stress_module.sh
	$(SCRIPTS)/valgrind.sh

fuzz: ## Feed each fuzz target for T seconds: make fuzz T=60; only some: make fuzz T=600 TARGETS="join merge".
	$(SCRIPTS)/fuzz.sh $(or $(T),60) $(TARGETS)

campaign: $(DEVELOP) ## Attack for hours: fuzz targets, random tests that try far more, kills: make campaign HOURS=8.
	$(SCRIPTS)/campaign.sh $(or $(HOURS),1)

options: ## Write the options of python/tidegate/options.py into signatures, docstrings and docs.
	python3 .github/scripts/options.py

check: $(DEVELOP) ## Check format, lints, types and stubs; run no tests.
	$(SCRIPTS)/format_rust.sh
	$(SCRIPTS)/lint_rust.sh --workspace
	$(SCRIPTS)/lint_python.sh
	$(SCRIPTS)/types_python.sh
	python $(SCRIPTS)/prose.py

prose: ## Find turns of phrase that CONTRIBUTING.md advises against.
	$(PYTHON) $(SCRIPTS)/prose.py

audit: $(VENV)/.pip ## Look up known weaknesses of what tidegate needs, and licences; needs cargo-deny.
	$(SCRIPTS)/audit.sh

format: $(VENV)/.tools ## Format all Rust and Python files.
	cargo fmt --all
	ruff format .

site: $(VENV)/.tools ## Build the site in site/ from docs/; a link that leads nowhere is an error.
	$(SCRIPTS)/site.sh

bench: $(RELEASE) ## Run a workload against its peers: make bench W=1 ARGS="--rows 1000000 --keys 1000".
	$(SCRIPTS)/bench.sh $(W) $(ARGS)

claims: $(RELEASE) ## Measure the claims of BENCHMARKS.md again, in some 20 minutes, and compare.
	pip install --group bench
	python benches/claims.py $(ARGS)

wheel: $(VENV)/.tools ## Build the wheel that is published, in dist/, and try it in an environment of its own.
	$(SCRIPTS)/build_wheel.sh
	$(SCRIPTS)/try_wheel.sh dist/*.whl

clean: ## Remove everything that was built.
	rm -rf $(VENV) target dist site .cache python/tidegate/_tidegate.*so

$(VENV)/.pip:
	$(SCRIPTS)/environment.sh $(PYTHON) $(VENV)
	touch $@

$(VENV)/.tools: $(VENV)/.pip pyproject.toml
	pip install --group build --group check --group docs --group test
	touch $@

$(RELEASE): $(VENV)/.pip $(SOURCES)
	rm -f $(DEVELOP) $(MODULE)
	$(SCRIPTS)/install.sh
	touch $@

# A newcomer builds once: what the compiler would keep for the next time is not written.
$(MODULE): export CARGO_INCREMENTAL := 0
$(MODULE): $(VENV)/.pip $(RUST)
	rm -f $(RELEASE)
	$(SCRIPTS)/develop.sh --group demo
	touch $@

$(DEVELOP): $(VENV)/.pip $(RUST)
	rm -f $(RELEASE)
	$(SCRIPTS)/develop.sh --group check --group docs --group test
	touch $(VENV)/.tools $(MODULE) $@
