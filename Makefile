# The commands for working with this checkout. Each target installs what it needs into .venv.
# Requirements: Python 3.11 or later, a Rust toolchain (https://rustup.rs) and, for Spark, Java 17
# or later.

PYTHON ?= python3
SCRIPTS := .github/scripts
VENV := .venv
# The versions of the development tools, so that a new release of a linter breaks no build.
LOCK := .github/requirements-dev.txt

export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PATH := $(VIRTUAL_ENV)/bin:$(PATH)
# Makes every call of cargo build pyo3 for this Python, so that nothing is compiled twice.
export PYO3_PYTHON := $(VIRTUAL_ENV)/bin/python

# The native module contains the docstrings of its stub.
RUST := Cargo.toml Cargo.lock pyproject.toml python/tidegate/_tidegate.pyi \
	$(shell find rust -name '*.rs' -o -name Cargo.toml)
SOURCES := $(RUST) README.md $(shell find python/tidegate -name '*.py' -o -name '*.pyi')

export PIP_QUIET := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The environment contains the package once, either as a release or as a development build. Each
# stamp removes the other.
RELEASE := $(VENV)/.release
DEVELOP := $(VENV)/.develop
# Marks a development build without the development tools.
MODULE := $(VENV)/.module

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install demo quick test lowest hosts sail versions coverage loom aarch64 stress fuzz campaign lock options check prose audit format site bench claims wheel clean

help: ## Print this list.
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(RELEASE) ## Build the package for speed and install it in .venv, with its command and its Spark form.

# The demo uses the installed build, if there is one. A development build takes half as long as a
# release build.
demo: $(if $(wildcard $(RELEASE)),$(RELEASE),$(MODULE)) ## Join a year of flights and weather in Spark, then a live exchange; check rows, print times, plot.
	pip install --constraint $(LOCK) --group demo
	$(SCRIPTS)/demo.sh

quick: $(DEVELOP) ## Run the core tests: Rust unit tests, and fast Python tests with fewer random cases.
	$(SCRIPTS)/test_rust.sh --lib
	CAMPAIGN=0.2 $(SCRIPTS)/test_python.sh -m "not slow"

test: $(DEVELOP) ## Run all tests: format, lints, Rust, Python, command line and Spark; `make check` checks the benches.
	$(SCRIPTS)/test.sh

lowest: $(VENV)/.pip ## Run the core Python tests with the lowest dependency versions that pyproject.toml allows.
	$(SCRIPTS)/test_lowest.sh

hosts: $(DEVELOP) ## Run the examples for Dask and Ray in docs/any-cluster.md, in a separate environment.
	$(SCRIPTS)/try_hosts.sh python

sail: $(VENV)/.pip ## Run the calls on tables on Sail, in a separate environment.
	$(SCRIPTS)/test_sail.sh

versions: $(VENV)/.pip ## Run some calls with each supported version of PySpark.
	$(SCRIPTS)/test_spark_versions.sh

coverage: $(DEVELOP) ## Report the lines and unsafe blocks that the tests reach, except the Spark tests.
	$(SCRIPTS)/coverage.sh

loom: ## Run the loom models, which explore every interleaving of small cases of shared structures.
	$(SCRIPTS)/loom.sh

aarch64: ## Run the unit tests of loops and operators for 64-bit ARM in an emulator.
	$(SCRIPTS)/aarch64.sh

stress: $(VENV)/.tools ## Run the gates with more threads than cores; run gates, module and imports under sanitizers and valgrind.
	$(SCRIPTS)/stress.sh
	$(SCRIPTS)/stress_module.sh
	$(SCRIPTS)/valgrind.sh

fuzz: ## Run each fuzz target for T seconds: make fuzz T=60; or only some: make fuzz T=600 TARGETS="join merge".
	$(SCRIPTS)/fuzz.sh $(or $(T),60) $(TARGETS)

campaign: $(DEVELOP) ## Stress-test for hours with fuzz targets, far more random cases, and kills: make campaign HOURS=8.
	$(SCRIPTS)/campaign.sh $(or $(HOURS),1)

lock: $(VENV)/.pip ## Lock the versions of the development tools; ARGS=--upgrade uses the newest ones.
	pip install uv
	$(SCRIPTS)/lock.sh $(ARGS)

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

audit: $(VENV)/.pip ## Check dependencies for known vulnerabilities and licences; needs cargo-deny.
	$(SCRIPTS)/audit.sh

format: $(VENV)/.tools ## Format all Rust and Python files.
	cargo fmt --all
	ruff format .

site: $(VENV)/.tools ## Build the site in site/ from docs/; a broken link is an error.
	$(SCRIPTS)/site.sh

bench: $(RELEASE) ## Run a workload against its peers: make bench W=1 ARGS="--rows 1000000 --keys 1000".
	$(SCRIPTS)/bench.sh $(W) $(ARGS)

claims: $(RELEASE) ## Measure the claims of BENCHMARKS.md again, in about 20 minutes, and compare.
	pip install --group bench
	python benches/claims.py $(ARGS)

wheel: $(VENV)/.tools ## Build the wheel for publication in dist/, and test it in a separate environment.
	$(SCRIPTS)/build_wheel.sh
	$(SCRIPTS)/try_wheel.sh dist/*.whl

clean: ## Remove everything that was built.
	rm -rf $(VENV) target dist site .cache python/tidegate/_tidegate.*so

$(VENV)/.pip:
	$(SCRIPTS)/environment.sh $(PYTHON) $(VENV)
	touch $@

$(VENV)/.tools: $(VENV)/.pip $(LOCK) pyproject.toml
	pip install --constraint $(LOCK) --group build --group check --group docs --group test
	touch $@

$(RELEASE): $(VENV)/.pip $(SOURCES)
	rm -f $(DEVELOP) $(MODULE)
	$(SCRIPTS)/install.sh
	touch $@

# A first build is not incremental, because new users build only once.
$(MODULE): export CARGO_INCREMENTAL := 0
$(MODULE): $(VENV)/.pip $(LOCK) $(RUST)
	rm -f $(RELEASE)
	$(SCRIPTS)/develop.sh --group demo
	touch $@

$(DEVELOP): $(VENV)/.pip $(LOCK) $(RUST)
	rm -f $(RELEASE)
	$(SCRIPTS)/develop.sh --group check --group docs --group test
	touch $(VENV)/.tools $(MODULE) $@
