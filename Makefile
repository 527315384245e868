# make demo and make test need only Python 3.10 or newer, make and a package registry.
PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
BIN := .venv/bin
READY := .venv/.ready
# a file runs in one process, since its tests share what they train; tests/conftest.py has the longest files first
# a process that ends by itself ends the tests: with another in its place they could wait for its share without end
PYTEST := $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# the tests start hundreds of processes; without bytecode, each of them would compile the sources again
export PYTHONDONTWRITEBYTECODE :=
CPP := $(wildcard native/*.hpp native/*.cpp native/*.inl native/tests/*.hpp native/tests/*.cpp native/tests/*.h)

.PHONY: demo quick test tests sweep mutants docs lint format setup requirements clean

demo: $(READY)
	$(BIN)/prunus demo

# a few minutes on 2 cores, one of them for the linters: everything but training runs and large networks
quick: lint
	$(PYTEST) -m "not slow"

# the type checker needs one core for a minute: beside the tests no other core waits for it
test: $(READY)
	$(MAKE) --jobs 2 lint tests

tests: $(READY)
	$(PYTEST)

# drawn tests with 40 times as many examples, the fuzzer with its full count, and the demo at its full length
sweep: $(READY)
	$(BIN)/pytest -n auto -m hypothesis --hypothesis-profile=sweep
	PRUNUS_DRAWS=1000 $(BIN)/pytest -n auto tests/budgets/test_keeper.py
	$(BIN)/python -m fuzzing.model_files
	$(BIN)/python -m fuzzing.model_files --dtype int8
	PRUNUS_FULL_DEMO=1 $(BIN)/pytest tests/verbs/test_demo.py

# changes 225 single operators, one at a time, and checks that tests notice: an hour and more; continues where it stopped
mutants: $(READY)
	$(BIN)/python -m mutants.run --json docs/results/mutants.json

# the theme announces its successor on every build; any other warning is an error
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo build/site/index.html

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

setup: $(READY)

# Every package must have a hash that requirements.txt lists, and the project is built with the tools among them:
# build isolation would download others, without hashes. Only the project itself is installed without one.
$(READY): requirements.txt pyproject.toml samples/pyproject.toml $(wildcard native/*) | $(UV)
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv
	@echo "installing the pinned packages into .venv (a few minutes the first time)"
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.txt
	@echo "building the native engine and installing Prunus (about a minute)"
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable . --editable samples
	touch $@

# uv selects matching builds of torch and torchvision; if it is missing, a private copy is installed
.uv/bin/uv:
	@echo "installing uv, which installs the packages, into .uv"
	$(PYTHON) -m venv .uv
	.uv/bin/pip install --quiet --require-hashes -r requirements-uv.txt

# The newest versions with the hashes of all their files. When the build tools change, [build-system] in pyproject.toml
# and samples/pyproject.toml, which other installers read, must name the same versions.
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-header --upgrade
requirements: | $(UV)
	$(COMPILE) --group build --extra train --extra onnx --extra serve --extra report --extra sweep --extra versus --extra docs --extra dev \
	  pyproject.toml --output-file requirements.txt
	$(COMPILE) --group uv --output-file requirements-uv.txt

clean:
	rm -rf build .venv .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis
