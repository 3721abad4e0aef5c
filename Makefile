# make demo   set up an environment and train on the embedded data, with and without its augmentation
# make test   set it up with the test extras and run all tests     (make test ARGS="--slow" for the long ones too)
# make torture   everything that machines do to a run, in full; writes the table in docs/reliability.md
# make lint   ruff (lint and format) and mypy
# make docs   the documentation as a site, in build/site
# make clean  remove the environment and what the tools left behind
#
# VENV=DIR puts the environment elsewhere; PYTHON=PROGRAM builds it with another Python (3.10 or newer).

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

RUN := $(VENV)/bin/python
# A stamp for each set of extras. A change of either file changes its name, so the next make installs again.
STAMP := $(VENV)/.installed-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)

.PHONY: demo test torture lint format docs clean
.SECONDARY:

demo: ready-core
	$(VENV)/bin/teachaugment demo $(ARGS)

test: ready-test
	$(RUN) -m pytest -n 2 $(ARGS)

# In one process: the table is of the whole of it.
torture: ready-test
	TORTURE=1 $(RUN) -m pytest --slow tests/reliability tests/engine/test_torchrun.py $(ARGS)

lint: ready-lint
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: ready-lint
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

docs: ready-docs
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict
	@! grep -rE '<(script|link|img)[^>]*(src|href)="(https?:)?//' build/site --include='*.html' || { \
		echo "a page of build/site fetches something from the network" >&2; exit 1; }

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache build src/*.egg-info

# The environment may be shared by several clones, or the clone may have moved: point it at the package of this one.
ready-%: $(STAMP)-%
	@test "$$(cat $(VENV)/.clone 2>/dev/null)" = "$(CURDIR)" || { \
		$(RUN) -m pip install --quiet --no-deps --no-build-isolation -e . && echo "$(CURDIR)" > $(VENV)/.clone; }

$(STAMP)-%:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "teachaugment needs Python 3.10 or newer, and '$(PYTHON)' is not: name one with make PYTHON=..." >&2; exit 1; }
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet -c constraints.txt setuptools
	$(RUN) -m pip install -c constraints.txt --no-build-isolation -e "$(if $(filter core,$*),.,.[$*])"
	@echo "$(CURDIR)" > $(VENV)/.clone
	@touch $@
