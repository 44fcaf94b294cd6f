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
PY := .venv/bin/python
# Each worker of the tests takes one core: two that take both wait for each other. The deep tests do without the checks
# of shapes (pyproject.toml).
QUIETLY := MPLBACKEND=Agg OMP_NUM_THREADS=1
# What differs from system to system (torch's CUDA libraries on Linux) is left to pip; pyproject.toml holds the bounds.
RESOLVE := _build/lock/bin/uv pip compile --quiet --upgrade --no-annotate --python-version 3.11 \
	--python-platform linux --custom-compile-command "make lock"
BENCH_PIP := .venv-bench/bin/python -m pip --disable-pip-version-check install --quiet --constraint requirements-lock.txt

# A backend chosen for another program would leave the pages without pictures; a foreign path, without our packages;
# and without compiled files, each of the many processes of the tests would compile its modules anew.
unexport MPLBACKEND PYTHONPATH PYTHONDONTWRITEBYTECODE
# Kernels of this environment, never one of the same name in the home folder; and quiet ones.
export JUPYTER_PREFER_ENV_PATH := 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1

.DEFAULT_GOAL := help
.PHONY: help env grading-env book pdf serve lab test test-deep check notebooks assignments grade mark lock colab bench release clean

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

check: env ## Check style, types and notebooks; change nothing
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m basedpyright
	$(PY) -m workshop.site.make_notebooks --check
	$(PY) -m ruff check --isolated --select F821 notebooks  # a name that only a cell of the book binds

notebooks: env ## Write notebooks/ anew from the chapters
	$(PY) -m workshop.site.make_notebooks

assignments: grading-env ## Write assignments/: for students, for instructors, rubrics (some: ARGS="attention masks")
	@$(PY) -m workshop.course.make_assignments $(ARGS)

grade: grading-env ## Grade a folder: SUBMISSIONS=folder [CHAPTER=attention] [OUT=grades]; runs students' code
	@test -n "$(SUBMISSIONS)" || { echo "Name the folder: make grade SUBMISSIONS=folder"; exit 2; }
	@test -d assignments/source || $(PY) -m workshop.course.make_assignments
	@.venv-grading/bin/python -m workshop.course.grade "$(SUBMISSIONS)" --out "$(OUT)" \
		$(if $(CHAPTER),--chapter $(CHAPTER)) $(ARGS)

mark: grading-env ## Mark written answers in the browser, in nbgrader's form; then `make grade` again [OUT=grades]
	@.venv-grading/bin/python -m workshop.course.mark "$(OUT)" $(ARGS)

lock: ## Resolve the dependencies anew, for Python 3.11.0; then run `make test` and `make book`
	$(PYTHON) -m venv --clear _build/lock
	_build/lock/bin/python -m pip install --quiet uv
	$(RESOLVE) pyproject.toml --extra book --extra test --output-file _build/lock/all.txt
	grep -vE '^(cuda|nvidia|triton)' _build/lock/all.txt > requirements-lock.txt
	$(RESOLVE) --group grading --output-file requirements-grading-lock.txt

colab: ## Run the notebooks with the versions of Colab (one: ARGS=notebooks/masks.ipynb)
	$(PYTHON) -m venv --clear _build/colab
	_build/colab/bin/python -m pip install --quiet --requirement workshop/site/colab.txt
	_build/colab/bin/python -m workshop.site.colab_check $(ARGS)

# The benchmarks do without a peer that cannot be installed. Two ask for versions of torch or protobuf that exclude a
# current torch, and for much that the benchmark never calls: they come alone, after what they do need.
bench: ## Measure this library beside its peers, in an environment of their own (half an hour; ARGS="--tiny")
	@test -x .venv-bench/bin/python || $(PYTHON) -m venv --clear .venv-bench
	@$(BENCH_PIP) torch numpy tokenizers sacrebleu transformers sentencepiece
	@$(BENCH_PIP) --editable .
	@while read -r peer; do $(BENCH_PIP) $$peer < /dev/null || echo "Left out: $$peer"; done < benchmarks/peers.txt
	@.venv-bench/bin/python benchmarks/run.py $(ARGS)

release: env ## Commit and tag a version, VERSION=0.2.0; `git push --follow-tags` then publishes it
	@test -n "$(VERSION)" || { echo "Name the version: make release VERSION=0.2.0"; exit 2; }
	$(PYTHON) -m venv _build/bump
	_build/bump/bin/python -m pip install --quiet "bump-my-version>=1.3"
	_build/bump/bin/bump-my-version bump --new-version "$(VERSION)"
	perl -pi -e 's/^  branch: \Kv.*/main/' _config.yml
	$(PY) -m workshop.site.make_notebooks
	git commit --quiet --all --message "After version $(VERSION)"

clean: ## Remove what the commands built, but not the environments (rm -rf .venv*)
	rm -rf _build build assignments .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*/*' -prune -exec rm -rf {} +
