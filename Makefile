# Everything starts here: `make run` and `make test` need nothing but python3, cargo and gcc.

PYTHON := .venv/bin/python
export CARGO_TERM_COLOR ?= auto

.PHONY: help setup setup-run run test lint rust-test python-test bench calibrate lock clean

help:
	@echo "make run        set everything up, measure this machine, write oscope-report.html"
	@echo "make test       set everything up, run linters and all tests"
	@echo "make bench      Oscope beside its peers, in one run"
	@echo "make calibrate  how often Oscope's verdicts are wrong here; some four hours"
	@echo "make setup      only set everything up: .venv/bin/oscope, oscope-probe, oscope-fs"
	@echo "make lock       renew requirements.lock from pyproject.toml"
	@echo "make clean      remove what was built"

setup:
	tools/setup.sh test

setup-run:
	tools/setup.sh run

run: setup-run
	.venv/bin/oscope run

test: setup lint rust-test python-test

lint:
	cargo fmt --all --check
	cargo clippy --locked --all-targets -- -D warnings
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

rust-test:
	cargo test --locked --release

python-test:
	$(PYTHON) -m pytest

bench:
	tools/setup.sh bench
	$(PYTHON) benchmarks/bench.py

calibrate:
	tools/setup.sh bench
	$(PYTHON) benchmarks/trust.py

lock:
	$(PYTHON) -m pip install --quiet uv
	.venv/bin/uv pip compile pyproject.toml --all-extras --generate-hashes --no-header --no-annotate --universal --quiet -o requirements.lock

clean:
	rm -rf target .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
