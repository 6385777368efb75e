# Two commands on a fresh machine with python3 and make: `make run` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
CODE := seq2attn tests
RECORD := $(BIN)/seq2attn compare -c configs/records
SEEDS := --vary seed=1-5 --checkpoint last
RECORD_LENGTHS := 8 20 80 200 800
FAMILIES := --families all --samples 100
CONTENT_LENGTHS := 8 10 12 14 16 20 30 40 80
INGREDIENTS := model.attention.history.rereading=false training.decoder_reset=0 training.word_dropout=0 \
	model.attention.scalable_softmax=false model.bidirectional=false

.PHONY: run test test-slow test-lowest torture records ablation bench g2p check format lint types tensorboard clean help

help:  ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

run: $(READY)  ## train configs/scaled.yaml, evaluate it, reverse "hello"
	@echo 'Training configs/scaled.yaml takes ten seconds, or a minute on a slow machine.'
	$(BIN)/seq2attn train --config configs/scaled.yaml
	$(BIN)/seq2attn eval
	$(BIN)/seq2attn predict "hello"
	@echo 'Next: . $(BIN)/activate    then: seq2attn --help'

test: $(TOOLS)  ## the default tests, on all cores; a few minutes
	$(BIN)/pytest -n logical --dist loadfile

test-slow: $(TOOLS)  ## the slow tests: train and evaluate every shipped recipe
	$(BIN)/pytest -m slow --ignore tests/faults

torture: $(TOOLS)  ## the fault tests at full length (kills, full disks, damaged files, fuzzing), then 10,000 random configs; hours
	$(BIN)/pytest -m "slow or not slow" tests/faults --ignore tests/faults/test_differential.py
	$(BIN)/pytest -n logical -v -m slow tests/faults/test_differential.py

test-lowest:  ## the default tests with the lowest versions in pyproject.toml (of constraints-lowest.txt), in an environment of their own
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt \
		--editable . pytest pytest-xdist hypothesis
	.venv-lowest/bin/python -m pytest -n logical -W ignore::DeprecationWarning

check: lint types test  ## everything CI runs: format, lint, types, tests

lint: $(TOOLS)  ## check format and lint without changing files
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/ruff check --no-cache .

types: $(TOOLS)  ## check static types
	$(BIN)/mypy

format: $(TOOLS)  ## format the code and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

records: $(READY)  ## train and evaluate every row of docs/length-generalisation.md; takes hours
	for row in reverse copy duplicate; do $(RECORD)/$$row.yaml --name $$row $(SEEDS) $(FAMILIES) --lengths $(RECORD_LENGTHS) || exit; done
	for row in reverse-location reverse-prior; do $(RECORD)/$$row.yaml --name $$row $(SEEDS) $(FAMILIES) --lengths 8 20 80 200 || exit; done
	for row in reverse copy duplicate; do $(RECORD)/$$row.yaml --name $$row $(SEEDS) --families all --samples 10 --lengths 8000 || exit; done
	for row in copy duplicate; do $(RECORD)/$$row.yaml --name $$row $(SEEDS) --families random --samples 100 --lengths 8000 || exit; done
	for task in recopy recopy-reverse dedupe; do $(BIN)/seq2attn compare -c configs/tasks/$$task.yaml --name $$task $(SEEDS) \
		--samples 100 --lengths 10 15 30 100 || exit; done
	$(BIN)/seq2attn compare -c configs/tasks/addition.yaml --name addition $(SEEDS) --samples 100 --lengths 21 31 61 201
	$(RECORD)/reverse-location.yaml --name location-one-direction --set model.bidirectional=false $(SEEDS) --samples 100 \
		--lengths 8 12 16 20 30 40 80 200
	for task in reverse copy duplicate; do $(RECORD)/content.yaml --name content-$$task --set task.name=$$task $(SEEDS) \
		--lengths $(CONTENT_LENGTHS) || exit; done
	$(RECORD)/content.yaml --name content-reverse $(SEEDS) $(FAMILIES) --lengths 8 16 20
	$(RECORD)/content.yaml --name content-no-resets --set training.encoder_reset=0 --set training.decoder_reset=0 $(SEEDS) \
		--lengths $(CONTENT_LENGTHS)
	$(RECORD)/reverse-digits.yaml --name reverse-digits $(SEEDS) --lengths 10 20 50 100
	$(RECORD)/reverse-40.yaml --name reverse-40 $(SEEDS) --lengths 41-500 --samples 10 --metric character_accuracy

ablation: $(READY)  ## train configs/records/reverse.yaml without one ingredient at a time
	for without in $(INGREDIENTS); do $(RECORD)/reverse.yaml --name without-$${without%%=*} --set $$without $(SEEDS) $(FAMILIES) \
		--lengths 8 20 80 200 || exit; done

bench: $(READY)  ## measure speed against a plain loop (and peers, if installed); about an hour; writes benchmarks/results.json
	$(BIN)/python -m benchmarks --json benchmarks/results.json

g2p: $(READY)  ## train on the pronunciations of SIGMORPHON 2021 in the folder DATA, and print a table of error rates; hours
	@test -n "$(DATA)" || { echo 'Name the folder: make g2p DATA=FOLDER. docs/your-own-data.md says where to get it.'; exit 2; }
	$(BIN)/python -m benchmarks.g2p $(DATA) --workers 2

tensorboard: $(READY)  ## show all runs in the browser
	$(BIN)/tensorboard --logdir runs

clean:  ## remove the environment and tool caches; keep the runs
	rm -rf $(VENV) .venv-lowest build *.egg-info seq2attn/kernels/recurrence.so seq2attn/kernels/recurrence.txt .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(TOOLS): $(READY)
	@echo 'Setting up what the tests and tools need, once: another 100 MB.'
	@$(BIN)/python install.py dev
	@touch $(TOOLS)

$(READY): pyproject.toml constraints.txt setup.py install.py $(wildcard seq2attn/kernels/*.c seq2attn/kernels/*.h)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "seq2attn needs Python 3.11 or newer; found " + sys.version.split()[0] + ". Name one: make run PYTHON=python3.12")'
	@echo 'Setting up $(VENV), once. PyTorch and the other packages are downloaded:'
	@echo '300 MB, or 3 GB if pip chooses a PyTorch for GPUs. This takes a few minutes.'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python install.py
	@if test -f seq2attn/kernels/recurrence.so; then echo 'Installed, with the compiled recurrences.'; \
	else echo "Installed without the compiled recurrences; training will be slower: $$(cat seq2attn/kernels/recurrence.txt)"; fi
	@touch $(READY)
