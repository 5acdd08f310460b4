# Two commands do all the set-up: `make demo` and `make test`.  They need Python 3.10+ and make, nothing else.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.10; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: demo test quick coverage fuzz mutants lint bench compilers clean
.DELETE_ON_ERROR:

demo: $(READY)
	$(PY) examples/demo.py

test: $(READY)
	$(PY) -m pytest -n auto --dist worksteal

# One test of each rule that tests/mutants lists: a minute or two, while you work.
quick: $(READY)
	$(PY) -m pytest -n auto --dist worksteal -m quick

# Lines and branches of src/snap that no test reaches, least covered last; pages of the report are in build/coverage.  make coverage TESTS="tests/cli tests/tune"
coverage: $(READY)
	$(PY) -m pytest -n auto --dist worksteal --cov --cov-report=html:build/coverage --cov-report=json:build/coverage.json $(TESTS)
	$(PY) tests/coverage_of.py build/coverage.json

# Programs drawn anew, until COUNT of them have been run; `python -m fuzz --help` in tests/ has more.  make fuzz COUNT=20000 OPTIONS="--families boxes --jobs 4"
COUNT ?= 2000
fuzz: $(READY)
	cd tests && ../$(PY) -m fuzz --count $(COUNT) $(OPTIONS)

# Every rule of the compiler weakened in turn; some test must fail each time.  make mutants OPTIONS="--only check/claims --jobs 4"
mutants: $(READY)
	cd tests && ../$(PY) -m mutants $(OPTIONS)

lint: $(READY)
	$(PY) -m ruff check src tests examples benchmarks docs

# Every kernel with every NVRTC that is supported (docs/system.md); each is installed into a temporary folder.  VERSIONS="13.0 13.4" tries those alone.
compilers: $(READY)
	$(PY) tests/codegen/versions.py $(VERSIONS)

# On a machine with a GPU.  A Python that has torch already is used as it is; else one is set up.  OPS="softmax scan" measures those alone;
# OPTIONS="--quick", "--limit 120" (seconds a benchmark), "--processes 12" (compile at the same time), "--seconds 600" (all of it).
bench:
	@if "$(PYTHON)" -c 'import torch, numpy' 2>/dev/null; then run="$(PYTHON)"; \
	else $(MAKE) --no-print-directory $(READY) && $(PY) -m pip install --quiet --disable-pip-version-check -e '.[gpu,torch]' && run="$(PY)"; fi && \
	{ "$$run" benchmarks/run.py $(OPS) $(OPTIONS); status=$$?; "$$run" docs/make_performance.py && exit $$status; }

clean:
	rm -rf $(VENV) build .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so an interrupted set-up starts again from the top.
$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Snap needs Python 3.10 or later; set PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[gpu,test]'
	touch $@
