# Needs Python >= 3.11 and make; everything else is installed into .venv, from the package registry that pip uses.
# Names of files are relative, so the project may live in a folder with spaces in its name.

PYTHON ?= python3
PORT ?= 8000
WORKERS ?= 2
ARGS ?=
SUBMISSIONS ?=
CHAPTER ?=
OUT ?= grades
VERSION ?=
NAME ?=
PY := .venv/bin/python
# Each worker of the tests takes one core: two that take both wait for each other. The deep tests do without the checks
# of shapes (pyproject.toml).
QUIETLY := MPLBACKEND=Agg OMP_NUM_THREADS=1
# What differs from system to system (torch's CUDA libraries on Linux) is left to pip; pyproject.toml holds the bounds.
RESOLVE := _build/lock/bin/uv pip compile --quiet --upgrade --no-annotate --python-version 3.11 \
	--python-platform linux --custom-compile-command "make lock"

# A backend chosen for another program would leave the pages without pictures; a foreign path, without our packages;
# and without compiled files, each of the many processes of the tests would compile its modules anew.
unexport MPLBACKEND PYTHONPATH PYTHONDONTWRITEBYTECODE
# Kernels of this environment, never one of the same name in the home folder; and quiet ones.
export JUPYTER_PREFER_ENV_PATH := 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1

.DEFAULT_GOAL := help
.PHONY: help env grading-env book pdf epub serve test test-deep test-fast mutants check bench record format \
	notebooks lab live assignments grade mark fonts lock colab-check projects slides release release-dry-run clean \
	distclean

help: ## Show this list
	@echo "The Executable Transformer. The first command also makes the environment .venv."
	@echo
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1|/' | \
		while IFS='|' read -r name text; do printf '  make %-15s %s\n' "$$name" "$$text"; done

env: ## Make or update the environment .venv from the lock
	@$(PYTHON) workshop/environment/make_env.py

grading-env: env ## Make or update .venv-grading, in which nbgrader runs
	@$(PYTHON) workshop/environment/make_env.py --grading

book: env ## Build the whole site from nothing, executing every page, into _build/html
	@$(PY) -m workshop.site.build_book

pdf: env ## Print the built site as one PDF and offer it on the pages; needs Chromium (make book pdf)
	@$(PY) -m workshop.site.make_pdf

epub: env ## Make an EPUB of the built site and offer it on the pages; needs Chromium (make book pdf epub)
	@$(PY) -m workshop.site.make_epub

serve: ## Show the site at http://127.0.0.1:8000 (another port: PORT=9000)
	@test -f _build/html/index.html || $(MAKE) --no-print-directory book
	@echo "The book is at http://127.0.0.1:$(PORT)/ until Ctrl-C."
	@$(PYTHON) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

lab: grading-env ## Open the notebooks in JupyterLab, as copies in my_notebooks/
	@mkdir -p my_notebooks _build && for name in notebooks/*.ipynb; do \
		test -e "my_$$name" || cp "$$name" my_notebooks/; done
	@$(PY) -m ipykernel install --prefix _build/jupyter > _build/kernel.txt  # JupyterLab has an environment of its own
	@JUPYTER_PATH="$(CURDIR)/_build/jupyter/share/jupyter" .venv-grading/bin/python -m jupyterlab $(ARGS) my_notebooks

test: grading-env ## Run the tests (one file, one test: ARGS="tests/paper/test_masks.py -k causal")
	$(QUIETLY) $(PY) -m pytest -n $(WORKERS) --dist worksteal -m "not deep" $(ARGS)

test-deep: grading-env ## Run the rest: kills, processes, whole environments, every chapter through nbgrader
	$(QUIETLY) $(PY) -m pytest -n $(WORKERS) --dist worksteal --jaxtyping-packages= -m deep $(ARGS)

test-fast: env ## Run the tests that take no more than a few seconds each
	$(QUIETLY) $(PY) -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not deep" $(ARGS)

mutants: env ## Plant a sample of small faults, one at a time: how many do the tests notice? (hours; ARGS="--survivors")
	$(PY) experiments/mutants.py $(ARGS)

check: env ## Check style, types and notebooks; change nothing
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m basedpyright
	$(PY) -m workshop.site.make_notebooks --check

format: env ## Put the code into the project's format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

notebooks: env ## Write notebooks/ anew from the chapters
	$(PY) -m workshop.site.make_notebooks

live: env ## Export what runs in the reader's browser: the translators (ARGS=name: one), and the steps of training
	$(PY) -m workshop.site.export_onnx $(ARGS)
	$(if $(ARGS),,$(PY) -m workshop.site.export_training)

assignments: grading-env ## Write assignments/: for students, for instructors, rubrics (some: ARGS="attention masks")
	@$(PY) -m workshop.course.make_assignments $(ARGS)

grade: grading-env ## Grade a folder: SUBMISSIONS=folder [CHAPTER=attention] [OUT=grades]; runs students' code
	@test -n "$(SUBMISSIONS)" || { echo "Name the folder: make grade SUBMISSIONS=folder"; exit 2; }
	@test -d assignments/source || $(PY) -m workshop.course.make_assignments
	@.venv-grading/bin/python -m workshop.course.grade "$(SUBMISSIONS)" --out "$(OUT)" \
		$(if $(CHAPTER),--chapter $(CHAPTER)) $(ARGS)

mark: grading-env ## Mark written answers in the browser, in nbgrader's form; then `make grade` again [OUT=grades]
	@.venv-grading/bin/python -m workshop.course.mark "$(OUT)" $(ARGS)

# With `npm install --ignore-scripts` and `pip install brotli`. Other letters come from the reader's own fonts.
LITERATA := node_modules/@fontsource-variable/literata/files/literata-latin-wght
SUBSET := --unicodes=20-7E --text='äöüÄÖÜßéèáàçñ§°²³·×½«»–—‘’“”„…−' --no-hinting --desubroutinize --flavor=woff2
SUBSET += --layout-features=kern,liga,calt,ccmp,mark,mkmk
fonts: env ## Cut the book's font from node_modules to the letters and weights that the pages use
	@mkdir -p _build
	$(PY) -m fontTools.varLib.instancer $(LITERATA)-normal.woff2 wght=400:650 --output _build/normal.ttf
	$(PY) -m fontTools.varLib.instancer $(LITERATA)-italic.woff2 wght=400 --output _build/italic.ttf
	$(PY) -m fontTools.subset _build/normal.ttf $(SUBSET) --output-file=book/_static/fonts/literata.woff2
	$(PY) -m fontTools.subset _build/italic.ttf $(SUBSET) --output-file=book/_static/fonts/literata-italic.woff2

lock: ## Resolve the dependencies anew, for Python 3.11.0; then run `make test` and `make book`
	$(PYTHON) -m venv --clear _build/lock
	_build/lock/bin/python -m pip install --quiet uv
	$(RESOLVE) pyproject.toml --extra book --extra test --output-file _build/lock/all.txt
	grep -vE '^(cuda|nvidia|triton)' _build/lock/all.txt > requirements-lock.txt
	$(RESOLVE) --group grading --output-file requirements-grading-lock.txt

bench: ## Measure this library beside its peers, in an environment of their own (15 minutes; ARGS="--tiny")
	@$(PYTHON) workshop/environment/make_env.py --bench
	@.venv-bench/bin/python benchmarks/run.py $(ARGS)

record: env ## Run an experiment again and record its result: NAME=parsing (hours; ARGS="--seeds 0")
	@test -f "experiments/$(NAME).py" || { echo "Name a program of experiments/: make record NAME=parsing"; exit 2; }
	$(PY) experiments/$(NAME).py $(ARGS)

colab-check: env ## Run the notebooks as Colab would, in an empty folder (newest versions: ARGS="--bounds newest")
	$(PY) -m workshop.site.colab_check $(ARGS)

slides: grading-env ## Make a deck of slides for each part of the built book, into _build/slides
	@$(PY) -m workshop.site.make_slides $(ARGS)

projects: env ## Write the two projects for students into assignments/projects (other bugs: ARGS="--seed 7")
	@$(PY) -m workshop.course.make_projects $(ARGS)

release: env ## Commit and tag a version, VERSION=0.2.0; `git push --follow-tags` then publishes it
	@test -n "$(VERSION)" || { echo "Name the version: make release VERSION=0.2.0"; exit 2; }
	$(PYTHON) -m venv _build/bump
	_build/bump/bin/python -m pip install --quiet "bump-my-version>=1.3"
	_build/bump/bin/bump-my-version bump --new-version "$(VERSION)"
	perl -pi -e 's/^  branch: \Kv.*/main/' _config.yml
	$(PY) -m workshop.site.make_notebooks
	git commit --quiet --all --message "After version $(VERSION)"

release-dry-run: env ## Pack what a release publishes into _build/release, from the built site; publish nothing
	@$(PY) -m workshop.site.release

clean: ## Remove what the commands built, but not the environment
	rm -rf _build build assignments .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*/*' -prune -exec rm -rf {} +

distclean: clean ## Remove the environment too
	rm -rf .venv .venv-bench .venv-grading *.egg-info
