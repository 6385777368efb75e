# Two commands on a fresh machine with python3 and make: `make run` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
SPHINX := $(VENV)/.sphinx
C := $(wildcard seq2attn/kernels/*.[ch] seq2attn/pages/engine/*.c)
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt \
	$(if $(wildcard class/wheels),--find-links class/wheels)

.PHONY: run test test-slow test-lowest torture records bench g2p check format lint types site pages class test-site tensorboard clean help

help:  ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

run: $(READY)  ## train configs/scaled.yaml, evaluate it, reverse "hello"
	@echo 'Training configs/scaled.yaml takes ten seconds to a minute; without a C compiler 2.5 times as long.'
	$(BIN)/python -m seq2attn train --config configs/scaled.yaml
	$(BIN)/python -m seq2attn eval
	$(BIN)/python -m seq2attn predict "hello"
	@echo 'Next: . $(BIN)/activate    then a word of your own: seq2attn predict YOURWORD'

test: $(TOOLS)  ## the default tests, on all cores; a few minutes
	$(BIN)/python -m pytest -n logical

test-slow: $(TOOLS) $(SPHINX)  ## the slow tests: train and evaluate every shipped recipe
	$(BIN)/python -m pytest -m slow --ignore tests/faults

torture: $(TOOLS)  ## the fault tests at full length (kills, full disks, damaged files, fuzzing), then 10,000 random configs; hours
	$(BIN)/python -m pytest -m "slow or not slow" tests/faults --ignore tests/faults/test_differential.py
	$(BIN)/python -m pytest -n logical -v -m slow tests/faults/test_differential.py

test-lowest:  ## the default tests with the lowest versions in pyproject.toml (of constraints-lowest.txt), in an environment of their own
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt \
		--editable . pytest pytest-xdist hypothesis
	.venv-lowest/bin/python -m pytest -n logical -W ignore::DeprecationWarning

check: lint types test  ## everything CI runs: format, lint, types, tests

lint: $(TOOLS)  ## check format and lint of Python, JavaScript and C without changing files
	$(BIN)/python -m ruff format --no-cache --check .
	$(BIN)/python -m ruff check --no-cache .
	$(BIN)/biome check --colors=off --error-on-warnings
	$(BIN)/clang-format --dry-run --Werror $(C)

types: $(TOOLS)  ## check static types
	$(BIN)/python -m mypy

format: $(TOOLS)  ## format Python, JavaScript and C, and fix what the linter can fix
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .
	$(BIN)/biome format --write
	$(BIN)/clang-format -i $(C)

records: $(READY)  ## train and evaluate the rows of docs/studies/length-generalisation.md; takes hours
	$(BIN)/python -m seq2attn compare configs/experiments/records.yaml
	$(BIN)/python -m seq2attn compare configs/experiments/order.yaml
	$(BIN)/python -m seq2attn compare configs/experiments/digits.yaml
	$(BIN)/python -m seq2attn compare configs/experiments/content.yaml
	$(BIN)/python -m seq2attn compare configs/experiments/by-key.yaml
	$(BIN)/python -m seq2attn compare configs/experiments/symbols.yaml

bench: $(READY)  ## measure speed against a plain loop (and peers, if installed); about an hour; writes benchmarks/results.json
	$(BIN)/python -m benchmarks --json benchmarks/results.json

g2p: $(READY)  ## train on the pronunciations of SIGMORPHON 2021 in the folder DATA, and print a table of error rates; hours
	@test -n "$(DATA)" || { echo 'Name the folder: make g2p DATA=FOLDER. docs/studies/pronunciations.md says where to get it.'; exit 2; }
	$(BIN)/python -m benchmarks.g2p $(DATA) --workers 2

site: $(SPHINX)  ## build the site of the documentation in site/, which opens from disk: site/index.html
	@rm -rf site
	$(BIN)/python -m sphinx --quiet --fail-on-warning --fresh-env -c docs/site -d build/doctrees . site
	@echo 'Open site/index.html.'

pages: $(READY)  ## put the present scripts and styles into the pages of docs/ that run models
	$(BIN)/python docs/site/refresh.py docs/*.html

class: site  ## fill class/ for laptops without a network: wheels for this system and Python, site, notebook, homework
	@rm -rf class/site
	@mkdir -p class
	cp -R site examples/homework.py class
	echo 'Your teacher has the solutions.' > class/site/examples/lesson_solutions.html
	cp examples/class.md class/README.md
	sed 's#../docs/lesson.md#site/docs/lesson.html#g' examples/lesson.ipynb > class/lesson.ipynb
	@echo 'Collecting wheels: a minute.'
	$(BIN)/python -m pip wheel --quiet --find-links class/wheels --wheel-dir class/wheels --constraint constraints.txt "." notebook
	@echo 'class/README.md says how a laptop installs from class/.'

test-site: $(TOOLS) $(SPHINX)  ## open the site, and more pages, in a browser
	$(BIN)/python -m pytest -m slow tests/test_site.py tests/test_page*.py

tensorboard: $(READY)  ## show all runs in the browser
	$(BIN)/python -m tensorboard.main --logdir runs

clean:  ## remove the environment and tool caches; keep the runs
	rm -rf $(VENV) .venv-lowest build site class *.egg-info seq2attn/kernels/recurrence.so seq2attn/kernels/recurrence.txt .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(TOOLS): $(READY)
	@echo 'Setting up what the tests and tools need, once: another 180 MB.'
	@$(INSTALL) --editable ".[dev]"
	@touch $(TOOLS)

$(SPHINX): $(READY)
	@echo 'Setting up what the site needs, once: another 30 MB.'
	@$(INSTALL) --editable ".[site]"
	@touch $(SPHINX)

$(READY): pyproject.toml constraints.txt setup.py $(wildcard seq2attn/kernels/*.c seq2attn/kernels/*.h)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "seq2attn needs Python 3.11 or newer; found " + sys.version.split()[0] + ". Name one: make run PYTHON=python3.12")'
	@case "$$PWD" in *'$$'[A-Za-z_{]*) \
	echo "setuptools cannot build in a folder whose path has a dollar sign before a letter, as $$PWD has: move it."; exit 2;; esac
	@echo 'Setting up $(VENV), once. PyTorch and the other packages are downloaded:'
	@echo '300 MB, or 3 GB if pip chooses a PyTorch for GPUs (on disk 1.2 GB, or 5.9 GB). This takes a few minutes.'
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --editable .
	@if test -f seq2attn/kernels/recurrence.so; then echo 'Installed, with the compiled recurrences.'; \
	else echo "Installed without the compiled recurrences: $$(cat seq2attn/kernels/recurrence.txt)"; \
	echo 'Training will take 2.5 times as long. To change that, install a C compiler (Debian, Ubuntu: apt install gcc;'; \
	echo 'macOS: xcode-select --install), then: rm $(READY); make run'; fi
	@touch $(READY)
