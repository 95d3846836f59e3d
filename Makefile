# Everything that a newcomer or a CI machine needs: `make demo` and `make test`.
# Works in .venv only; no target touches the Python of the system.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := workflows/melt_surrogate.yaml
PINS   := constraints.txt

# Debian packages that tests use where they are there: dot draws the SVG of `diel graph`, Open MPI is the wrong one
# beside MPICH, gcc and gfortran compile programs that use streams, the others are a real Slurm (tests/cluster), a
# runtime of containers with an image, modules, and Chromium, which opens pages. No service has to run; without
# /etc/slurm/slurm.conf none starts.
BROWSER := chromium-headless-shell
DEBIAN_PACKAGES := graphviz openmpi-bin libopenmpi-dev slurmctld slurmd slurm-client munge slurm-wlm-torque \
                   gcc gfortran charliecloud busybox-static lmod $(BROWSER)

# Much of the suite waits for processes and schedulers, so that four do well on two cores.
TEST_PROCESSES ?= 4

DEMO_EXTRAS := examples
TEST_EXTRAS := ase,data,dev,examples,gpu,notify,reinforcement,report,rocrate,sample,search,serve,tables,tensorboard,torch,units,uv,view

DEMO_READY := $(VENV)/.ready-demo
TEST_READY := $(VENV)/.ready-test
DOCS_READY := $(VENV)/.ready-docs
LEFT_OUT   := .left-out

# Python keeps what it compiled: else each of some thousand programs that the tests start compiles diel anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test lint format map docs pictures science ruff types layers pytest coverage benchmark campaign cluster constraints debian clean

help:  ## this list
	@echo "diel: make TARGET"
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
	  printf '  %-12s  %s\n' "$$name" "$$text"; done

demo: $(DEMO_READY)  ## set up .venv and run molecular dynamics that trains a surrogate (about two minutes)
	@$(BIN)/diel run $(DEMO)

# mypy has one core to itself for a minute: the tests are compiled and begin beside it, and what it says comes last.
test: debian $(TEST_READY)  ## set up .venv and run every check: ruff, mypy, layers, pytest
	@said=$$(mktemp); $(MAKE) --no-print-directory types >$$said 2>&1 & types=$$!; \
	  $(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1; \
	  status=0; $(MAKE) --no-print-directory --keep-going ruff layers pytest || status=$$?; \
	  wait $$types || status=$$?; cat $$said; rm -f $$said; \
	  if [ -s $(LEFT_OUT) ]; then echo; echo "Left out:"; sed 's/^/  - /' $(LEFT_OUT); fi; \
	  rm -f $(LEFT_OUT); \
	  if [ $$status -eq 0 ]; then echo "make test: all checks passed"; else echo "make test: FAILED (see above)"; fi; \
	  exit $$status

lint: ruff types layers  ## ruff, mypy and the layers, without the tests

format: $(TEST_READY)  ## rewrite the sources as ruff formats them
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

map:  ## write docs/map.md anew from the docstrings of the sources
	@$(PYTHON) docs/map.py

docs: $(DOCS_READY)  ## build the pages of docs/ as a site with search, in build/site: any warning is an error
	@$(BIN)/sphinx-build -q -E -n -W --keep-going docs build/site
	@echo "build/site/index.html"

pictures: $(TEST_READY)  ## take the pictures of README and gallery anew, from runs of all that ships (ten minutes)
	@command -v chromium $(BROWSER) >/dev/null || { echo "No Chromium; on Debian: apt-get install $(BROWSER)"; exit 1; }
	@$(BIN)/python docs/pictures.py

science: $(TEST_READY)  ## run all that docs/science.md claims, and write what was found to build/science (half an hour or more)
	@$(BIN)/python docs/science.py

ruff: $(TEST_READY)
	@echo "ruff"
	@status=0; $(BIN)/ruff check --quiet . || status=1; $(BIN)/ruff format --check --quiet . || status=1; \
	  [ $$status -eq 0 ] || { echo "ruff: run 'make format', then see what is left"; exit 1; }

types: $(TEST_READY)
	@echo "mypy --strict"
	@$(BIN)/mypy

layers: $(TEST_READY)
	@echo "import layers"
	@$(BIN)/lint-imports --no-logo

pytest: $(TEST_READY)
	@echo "pytest"
	@$(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --dist worksteal

coverage: $(TEST_READY)  ## print how much of the code the tests run in their own processes; below 80 % is an error
	@$(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --dist worksteal --cov --cov-report=term

benchmark: $(TEST_READY)  ## print how fast diel is, side by side with xargs
	@$(BIN)/python tests/benchmarks

campaign: $(TEST_READY)  ## kill runs 300 times and resume them (about half an hour), then other long tests
	@$(BIN)/python -m tests.campaign
	@$(BIN)/python -m pytest -m campaign

cluster: debian $(TEST_READY)  ## bring up a throwaway Slurm with four virtual nodes on this machine (as root)
	@rm -f $(LEFT_OUT); $(BIN)/python -m tests.cluster up

# --- setting up ----------------------------------------------------------------------------------

# $(call install,EXTRAS): installs the checkout with these extras at the versions of $(PINS).
# -qq: pip says errors only. The build tools are pinned too, by whichever of the two names pip knows.
define install
	@echo "Installing diel[$(1)] into $(VENV) (a minute or two the first time) ..."
	@PIP_CONSTRAINT=$(PINS) PIP_BUILD_CONSTRAINT=$(PINS) PIP_DISABLE_PIP_VERSION_CHECK=1 \
	  $(BIN)/python -m pip install -qq --editable '.[$(1)]' || { \
	  echo "Installing failed (see above). It needs PyPI, or a mirror of it that pip is set up for."; \
	  echo "Then run make again; what is installed already is kept."; exit 1; }
endef

$(DEMO_READY): pyproject.toml $(PINS) | $(BIN)/python
	$(call install,$(DEMO_EXTRAS))
	@touch $@

$(TEST_READY): pyproject.toml $(PINS) | $(BIN)/python
	$(call install,$(TEST_EXTRAS))
	@touch $(DEMO_READY) $@

$(DOCS_READY): pyproject.toml $(PINS) | $(BIN)/python
	$(call install,docs)
	@touch $@

$(BIN)/python:
	@command -v '$(PYTHON)' >/dev/null || { \
	  echo "diel needs Python 3.11 or newer; '$(PYTHON)' was not found."; \
	  echo "On Debian and Ubuntu: apt-get install python3 python3-venv"; \
	  echo "Elsewhere: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "diel needs Python 3.11 or newer; '$(PYTHON)' is $$('$(PYTHON)' --version 2>&1)."; \
	  echo "Name a newer one: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@'$(PYTHON)' -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments: its venv module is not installed."; \
	  echo "On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Making $(VENV) ..."
	@'$(PYTHON)' -m venv $(VENV)

# Debian packages are a help, not a need: what cannot be installed is written down and said at the end.
# Ubuntu has no package with the browser's name: there the others come without it.
# python3-venv is asked for where $(PYTHON) cannot make the virtual environment without it.
debian:
	@rm -f $(LEFT_OUT); missing=; wanted="$(DEBIAN_PACKAGES)"; \
	[ -x $(BIN)/python ] || '$(PYTHON)' -c 'import ensurepip, venv' 2>/dev/null || \
	  wanted="python3-venv $$wanted"; \
	for package in $$wanted; do \
	  dpkg -s $$package 2>/dev/null | grep -q '^Status: .* installed$$' || missing="$$missing $$package"; done; \
	[ -n "$$missing" ] || exit 0; \
	if ! command -v apt-get >/dev/null; then \
	  why="this is not a Debian machine (there is no apt-get)"; \
	elif [ "$$(id -u)" -ne 0 ]; then \
	  why="not root, so no Debian package can be installed; as root: apt-get install$$missing"; \
	else \
	  echo "Installing Debian packages:$$missing ..."; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  install="apt-get install -qq --yes --no-install-recommends$$missing"; \
	  if log=$$( { $$install || { apt-get update -qq && $$install; }; } </dev/null 2>&1 ); then exit 0; fi; \
  case "$$missing" in *" $(BROWSER)"*) \
    if $${install% $(BROWSER)} </dev/null >/dev/null 2>&1; then missing=" $(BROWSER)"; fi;; esac; \
	  why="apt-get failed: $$(printf '%s\n' "$$log" | grep '^E:' | tail -n 1)"; \
	fi; \
	for package in $$missing; do \
	  echo "Debian package $$package (pytest says which tests are skipped without it): $$why"; \
	done | tee $(LEFT_OUT)

constraints:  ## renew constraints.txt: the newest versions that pyproject.toml allows
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	  '$(PYTHON)' -m venv "$$dir"; \
	  echo "Resolving diel[$(TEST_EXTRAS),docs,mlflow] ..."; \
	  PIP_DISABLE_PIP_VERSION_CHECK=1 "$$dir/bin/python" -m pip install -qq --editable '.[$(TEST_EXTRAS),docs,mlflow]' editables; \
	  { echo "# The exact versions that make installs by. Made by 'make constraints'; do not edit."; \
	    "$$dir/bin/python" -m pip freeze --exclude-editable | grep -v ' @ '; } >"$$dir/pins"; \
	  cp "$$dir/pins" $(PINS)
	@git --no-pager diff --stat -- $(PINS) 2>/dev/null || true

clean:  ## remove .venv, caches and build files; runs/ is kept
	@rm -rf $(VENV) $(LEFT_OUT) build dist .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache \
	  .hypothesis .import_linter_cache *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
