# Every target prepares what it needs. `make help` lists them.
SHELL := /bin/bash
RUN := .venv/bin
PYTEST := $(RUN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help demo test setup lint types unit integration campaign bench fmt lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

demo: setup ## bring a cluster's walls up on this machine and try to climb them
	@$(RUN)/bellwether demo

test: lint types ## everything that must hold: lint, types, unit, property, integration and security tests
	$(PYTEST) --durations=8

setup: ## prepare everything: .venv with pinned packages, the bellwether command, the jars
	@tools/setup

lint: setup ## style and common mistakes
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .

types: setup ## static types, strict
	$(RUN)/mypy

unit: setup ## tests of pure code
	$(PYTEST) tests/unit tests/properties

integration: setup ## tests with a real broker
	$(PYTEST) tests/integration tests/security

campaign: setup ## the long runs: lanes killed 300 times, a million mutated records, ten times the random lanes
	BELLWETHER_KILLS=300 $(PYTEST) tests/integration/test_lanes_live.py
	BELLWETHER_CLIENT=librdkafka $(PYTEST) tests/integration/test_lanes_live.py tests/security/test_low_cannot_tell.py \
	    -k "not every_step"
	BELLWETHER_CAMPAIGN=10 $(PYTEST) tests/properties/test_mutated_records.py tests/properties/test_lanes.py

bench: setup ## what lanes cost, as ratios of CPU time, to benchmarks/results; on a quiet machine
	$(RUN)/python -m benchmarks.lanes

fmt: setup ## format the code and mend what lint can
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

lock: setup ## make the lock files anew from pyproject.toml
	$(RUN)/python -m pip install --quiet uv
	cd requirements && ../$(RUN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --custom-compile-command "make lock" --no-emit-index-url build.in -o build.lock
	$(RUN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras --group dev \
	    --custom-compile-command "make lock" --no-emit-index-url pyproject.toml -o requirements/all.lock

clean: ## remove what the targets made
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
