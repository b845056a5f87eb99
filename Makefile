# Needs Python 3.11 or newer, and make. Everything else goes into .venv (tools) and .local (state, logs, caches).

PYTHON ?= python3
PORT ?= 4566
VENV := .venv
BIN := $(VENV)/bin
EXAMPLES ?= 5000
WORKERS ?= 2
SEED := $(or $(SEED),$(shell date +%s))
# Another Python than the last time, or one that was updated, makes another environment.
READY := $(VENV)/.requirements-$(shell $(PYTHON) -c 'import hashlib, sys; print(hashlib.sha256((sys.version + sys.base_prefix).encode()).hexdigest()[:12])' 2>/dev/null)

export SAM_CLI_TELEMETRY := 0
# Python keeps what it compiled: else each test process rewrites the asserts of 300 modules anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help local local-reset break logs sam-local test unit oracle explore fuzz soak torture bench bench-scale docs check format openapi pins build clean

help:  ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

local: $(READY)  ## Run all of it on this computer until Ctrl-C (PORT=4566 CONTAINERS=)
	@exec $(BIN)/python -m tests.emulator.local --port $(PORT) --containers "$(CONTAINERS)"

local-reset:  ## Forget what `make local` has stored
	@$(PYTHON) -m tests.emulator.reset

break: $(READY)  ## Let the simulated EC2 of `make local` misbehave (WHAT=, without it: what there is)
	@exec $(BIN)/python -m tests.emulator.break_it

logs: $(READY)  ## Follow the log of `make local` (OPERATION=)
	@exec $(BIN)/python -m tests.emulator.logs --operation "$(OPERATION)"

sam-local: $(READY)  ## Build for `sam local` on this computer's processor, and print its commands
	@exec $(BIN)/python -m tests.emulator.sam_local

test: $(READY)  ## Run all tests, those of the deployed stack beside the others
	@$(BIN)/python -m pytest -q --durations 10 tests/integration tests/template & deployed=$$!; \
	$(BIN)/python -m pytest -q --durations 10 tests/unit tests/contract; status=$$?; \
	wait $$deployed && exit $$status

# Contracts come first: a process that has done its own tests takes others from the end, and so the stores of
# the contracts start in one process alone.
unit: $(READY)  ## Run the tests that need no deployed stack (WORKERS=2)
	@exec $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations 10 tests/contract tests/unit

oracle: $(READY)  ## Compare the stores of the tests with Amazon's DynamoDB Local (Java, npm)
	@ORACLE_REQUIRED=1 exec $(BIN)/python -m pytest -q -k "oracle" tests/contract

explore: $(READY)  ## Search at random for what breaks an invariant (EXAMPLES=5000 SEED=)
	@echo "paddock: make explore EXAMPLES=$(EXAMPLES) SEED=$(SEED)"
	@EXAMPLES=$(EXAMPLES) PYTHONHASHSEED=0 $(BIN)/python -m pytest -q --hypothesis-seed=$(SEED) \
		tests/unit/test_virtual_clusters_stateful.py

soak: $(READY)  ## Run all of it in bad weather for as long as SOAK_SECONDS says (600)
	@SOAK_SECONDS=$(or $(SOAK_SECONDS),600) exec $(BIN)/python -m pytest -s -m soak \
		tests/integration

torture: $(READY)  ## Kill, pause and mislead real processes for so long, and look (TORTURE_SECONDS=600 SEED= FAULT=)
	@PYTHONPATH=layers/shared/python:. exec $(BIN)/python -m tests.torture.run \
		--seconds $(or $(TORTURE_SECONDS),600) --seed $(SEED) $(if $(FAULT),--fault $(FAULT))

bench: $(READY)  ## Print what creating nodes costs in calls
	@PYTHONPATH=layers/shared/python $(BIN)/python -m tests.bench.calls

bench-scale: $(READY)  ## Print what 10,000 nodes take with AWS's default limits, in half an hour
	@PYTHONPATH=layers/shared/python $(BIN)/python -m tests.bench.scale

docs: $(READY)  ## Write the tables of docs/ that are made from the code, in a minute
	@PYTHONPATH=layers/shared/python $(BIN)/python -m tests.generated

check: $(READY)  ## Check format, lint, types, the template and the import arrows
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/sam validate --lint
	$(BIN)/python -m pytest -q tests/template tests/unit/test_architecture.py

format: $(READY)  ## Format the code and repair what lint can repair
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

build: $(READY)  ## Build for AWS; `sam deploy --guided` comes next
# Functions are deployed as they lie there.
	@find functions -name __pycache__ -prune -exec rm -r {} +
	HOST_PYTHON=$(CURDIR)/$(BIN)/python $(BIN)/sam build

fuzz: EXAMPLES := 500
fuzz: $(READY)  ## Ask the API what the OpenAPI document makes of it, right and wrong (EXAMPLES=500 SEED=)
	@echo "paddock: make fuzz EXAMPLES=$(EXAMPLES) SEED=$(SEED)"
	@FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -q --timeout=0 --hypothesis-seed=$(SEED) tests/unit/test_fuzz.py

openapi: $(READY)  ## Write the API's description, functions/api/openapi.json
	@PYTHONPATH=layers/shared/python:functions:. exec $(BIN)/python -m tests.openapi

pins: $(READY)  ## Resolve requirements-dev.in into requirements-dev.txt
	@$(PYTHON) -m venv .local/pins && .local/pins/bin/pip install -qq uv
	@.local/pins/bin/uv pip compile --quiet --universal --python-version 3.11 --upgrade --no-annotate --no-header \
		--no-emit-index-url requirements-dev.in --output-file .local/pins/requirements.txt
	@{ echo "# Made by 'make pins' from requirements-dev.in. Do not edit."; cat .local/pins/requirements.txt; } \
		> requirements-dev.txt

clean:  ## Remove everything that these targets made
	rm -rf $(VENV) .local .aws-sam

$(READY): requirements-dev.txt
	@command -v $(PYTHON) >/dev/null || { echo "paddock: $(PYTHON) is not installed; Python 3.11 or newer is needed" >&2; exit 1; }
	@$(PYTHON) tests/emulator/prepare.py
	@rm -f $(VENV)/.requirements-*
	@touch $@
