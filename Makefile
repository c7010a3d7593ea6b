# Two commands on a fresh machine: `make demo`, `make test`. Both build .venv if it is not there.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo test lint slow bars wheel docs clean

demo: $(INSTALLED)
	$(BIN)/python -m zoo.data.digits digits
	rm -rf runs/demo
	$(BIN)/zoo train image_classify/vit_tiny_scratch --data.train digits/train --data.test digits/test \
	  --data.flip false --model.name vit_tiny_patch8_32 --model.depth 6 --run.dir runs/demo
	$(BIN)/zoo predict runs/demo $$(for n in 0 1 2 3 4; do ls digits/test/$$n/*.png | head -n 1; done)

test: lint  # one thread each: two processes of two threads wait for each other on two cores
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

slow: $(INSTALLED)
	$(BIN)/pytest -m slow

bars: $(INSTALLED)
	$(BIN)/python tests/bars.py $(BAR)

docs: $(INSTALLED)
	$(BIN)/python tests/make_docs.py

wheel: $(INSTALLED)
	$(BIN)/python -m build --wheel

clean:
	rm -rf .venv dist build runs digits

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "omnizoo wants Python 3.11 or newer; this is " + sys.version.split()[0] + ": say make PYTHON=python3.12")'
	@echo "installing into .venv: a few minutes, several gigabytes"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@
