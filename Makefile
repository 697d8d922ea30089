# Every target sets up what it needs in .venv, so each works in a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-long examples lint format bench race clean

demo: $(READY)
	$(BIN)/roodso demo --force

test: $(READY)
	$(BIN)/python -m pytest -n auto

test-long: $(READY)
	$(BIN)/python -m pytest -n auto -m "slow or not slow"

examples: $(READY)
	$(BIN)/python examples/quickstart.py
	MPLBACKEND=agg $(BIN)/python examples/plot_decision.py .venv/decision.png

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/rivals.py
	$(BIN)/python benchmarks/intersection.py
	$(BIN)/python benchmarks/continuous.py
	$(BIN)/python benchmarks/scale.py

# Peers are installed on the first run, each in an environment of its own under .venv/race.
race: $(READY)
	$(BIN)/python benchmarks/race.py --docs docs

# The interpreter is checked first: an old one fails late and obscurely.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; say which: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
