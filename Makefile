# Two commands matter: `make demo` and `make test`. Both set up .venv by themselves.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
BIN := .venv/bin

# ROS 2 traffic stays on this machine; each run uses a domain of its own (see test/conftest.py and `svfm demo`).
export ROS_AUTOMATIC_DISCOVERY_RANGE := LOCALHOST

.PHONY: help setup demo test test-slow lint format docs pictures bench

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

setup: ## make .venv with everything that is needed
	@scripts/setup.sh

demo: setup ## simulated walks, replayed through real ROS 2 nodes
	@$(BIN)/svfm demo --out out/demo

test: lint ## all tests that finish within ten minutes, with the linters first
	@scripts/setup.sh fleet || echo "Ray cannot be installed here: the tests of many homes on Ray are skipped" >&2
	@$(BIN)/python -m pytest -m "not slow and not ros" -n 2 --dist loadscope --cov=svfm_ros --cov-report=
	@$(BIN)/python -m pytest -m "ros and not slow" --cov=svfm_ros --cov-append --cov-report=
	@echo "coverage of the core (target: 90 %)" && $(BIN)/coverage report --fail-under=90

test-slow: setup ## the tests that take longer
	@$(BIN)/python -m pytest -m slow

lint: setup ## ruff (format and rules) and mypy
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/mypy --no-error-summary

format: setup ## format with ruff and apply its fixes
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

docs: setup ## write docs/reference.md and the SROS 2 policy again from the code
	@$(BIN)/python scripts/make_reference.py
	@$(BIN)/python scripts/make_policy.py

pictures: setup ## draw every picture of the documentation again
	@$(BIN)/python scripts/make_pictures.py

bench: ## every benchmark, our methods and others; BENCH_ARGS="--data DIR" for those on real recordings
	@scripts/setup.sh bench
	@$(BIN)/svfm bench --page docs/results.md $(BENCH_ARGS)
