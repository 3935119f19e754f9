# Everything starts here: `make run` and `make test` need nothing but python3, cargo and gcc.

PYTHON := .venv/bin/python
export CARGO_TERM_COLOR ?= auto

.PHONY: help setup setup-run run test test-full conformance coverage lint rust-test python-test bench bench-full calibrate static-probe aarch64 notebooks docs pictures lock clean

help:
	@echo "make run        set everything up, measure this machine, write oscope-report.html"
	@echo "make test       set everything up, run linters and all tests but those that are long by nature"
	@echo "make test-full  the same with those"
	@echo "make conformance  outside suites of file systems on oscope-fs and its peers; writes docs/fs-conformance.md; XFSTESTS=DIR"
	@echo "make coverage   which lines the tests execute, of Rust and of Python"
	@echo "make bench      Oscope beside its peers, in 40 minutes; writes docs/benchmarks.md"
	@echo "make bench-full the same with all rounds and trials; half a day"
	@echo "make calibrate  how often Oscope's verdicts are wrong here; some four hours"
	@echo "make setup      only set everything up: .venv/bin/oscope, oscope-probe, oscope-fs, and kernels for the tests' guests"
	@echo "make static-probe  the probe without shared libraries, to be traced: oscope-probe ipc"
	@echo "make aarch64    check the programs for arm64, and have the probe measure under QEMU; needs Debian's packages"
	@echo "make notebooks  execute the labs' notebooks on their stored records, and store the outputs"
	@echo "make docs       build the documentation site, offline: target/docs/index.html"
	@echo "make pictures   make the pictures of README and documentation from real runs on this machine"
	@echo "make lock       renew requirements.lock from pyproject.toml"
	@echo "make clean      remove what was built"

setup:
	tools/setup.sh test

setup-run:
	tools/setup.sh run

run: setup-run
	.venv/bin/oscope run

test: setup
	$(PYTHON) tools/run_tests.py

test-full: setup
	$(PYTHON) tools/run_tests.py --full

# Root, and crates.io for the suites. Some twenty minutes; two hours more with a checkout of xfstests:
# make conformance XFSTESTS=DIR [PJDFSTEST=DIR]
conformance:
	tools/setup.sh bench
	$(PYTHON) tools/conformance.py $(if $(PJDFSTEST),--pjdfstest $(PJDFSTEST)) $(if $(XFSTESTS),--xfstests $(XFSTESTS))

coverage: setup
	$(PYTHON) tools/measure_coverage.py

lint:
	$(PYTHON) tools/run_tests.py lint clippy

rust-test:
	$(PYTHON) tools/rust_tests.py

python-test:
	$(PYTHON) tools/run_tests.py parallel alone

bench:
	tools/setup.sh bench
	$(PYTHON) benchmarks/bench.py

bench-full:
	tools/setup.sh bench
	$(PYTHON) benchmarks/bench.py --full

calibrate:
	tools/setup.sh bench
	$(PYTHON) benchmarks/trust.py

# glibc's own static libraries: they come with its headers (libc6-dev).
STATIC_TARGET := $(shell uname -m)-unknown-linux-gnu
STATIC_PROBE := target/$(STATIC_TARGET)/release/oscope-probe

static-probe:
	cargo build --locked --release --package oscope-programs --bin oscope-probe --target $(STATIC_TARGET) \
		--config 'target.$(STATIC_TARGET).rustflags=["-C","target-feature=+crt-static"]'
	! readelf --program-headers $(STATIC_PROBE) | grep --quiet INTERP
	$(STATIC_PROBE) ipc -B
	@echo $(STATIC_PROBE)

# Too long for make test; of the tests only those marked full run it.
aarch64:
	tools/setup.sh run
	$(PYTHON) tools/aarch64.py

notebooks:
	$(PYTHON) tools/notebooks.py

# Warnings are errors: a dead link or a page outside the contents fails the build.
docs:
	tools/setup.sh run
	$(PYTHON) -m sphinx --quiet --fail-on-warning --keep-going --builder html docs target/docs
	@echo target/docs/index.html

pictures:
	tools/setup.sh test
	$(PYTHON) tools/pictures.py

# Extras stay in the lock: pip before 23.3 resolves 'coverage[toml]' apart from 'coverage', takes the newest version there is, and then misses its hash.
lock:
	$(PYTHON) -m pip install --quiet uv
	.venv/bin/uv pip compile pyproject.toml --all-extras --generate-hashes --no-header --no-annotate --universal --no-strip-extras --quiet -o requirements.lock

clean:
	rm -rf target .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
