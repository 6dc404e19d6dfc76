# The commands of spaPS. All of them set themselves up; none needs more than Python 3.11 and make.
PYTHON ?= python3
RUN := .venv/bin/python
PYTHON_IS_THERE = command -v $(PYTHON) >/dev/null 2>&1 || { \
  echo "spaPS needs Python 3.11 or newer, and $(PYTHON) is not on the PATH"; exit 1; }

# Many tests wait for servers, so six processes keep two cores busy. tests/conftest.py says which
# tests stay together, and puts the long ones first.
WORKERS := -n 6 --dist loadfile --no-loadscope-reorder

# Tests start hundreds of Python processes. Each would compile the project anew where this is set.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
# Each step of the set-up is for one process at a time, whatever -j says.
.NOTPARALLEL:
.PHONY: help setup setup-tests demo test check lint format bench-live bench-bulk bench-osm bench-rebuild bench-switch bench-find bench-map bench-broker evaluation bench-sizes bench-fuzz soak check-image clean distclean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## environment in .venv: Python packages, Java, Spark jars (the first time takes minutes)
	@$(PYTHON_IS_THERE)
	@PYTHONUNBUFFERED=1 $(PYTHON) bootstrap.py

demo: setup ## the sample world and its subscriptions, resolved: a table and map pages
	@$(RUN) -m spaps.demo

setup-tests: ## the same for the tests: servers and programs that they start, with apt
	@$(PYTHON_IS_THERE)
	@PYTHONUNBUFFERED=1 $(PYTHON) bootstrap.py tests

test: setup-tests lint ## everything: installs the servers that the tests start, then lint and all tests
	@$(RUN) -m pytest $(WORKERS)

check: lint ## for every save: lint and the unit tests; needs no servers
	@$(RUN) -m pytest $(WORKERS) tests/unit

lint: setup ## ruff, mypy strict, import-linter
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(RUN) -m mypy bootstrap.py bootstrap_spark.py system_packages.py hatch_build.py
	@.venv/bin/lint-imports

format: setup ## bring all files into the one layout
	@$(RUN) -m ruff format .
	@$(RUN) -m ruff check --fix .

bench-live: setup ## the exact resolver beside a PostGIS procedure, on a city of 225,000 entities
	@$(RUN) -m bench.live

bench-find: setup ## times of `spaps find`, `categories` and `map` on a city of 225,000 entities
	@$(RUN) -m bench.search

bench-map: setup ## frames per second of the map page of that city, in a headless Chromium
	@$(RUN) -m bench.map_page

bench-bulk: setup ## the bulk job beside the engine of 1a227ed and PostGIS; takes hours; PARTS="city push-10m": some parts
	@$(RUN) -m bench.bulk $(if $(PARTS),--parts $(PARTS))

bench-osm: setup ## a generated extract of 5 million ways, imported by Spark and by one process
	@$(RUN) -m bench.bulk.osm_import

bench-broker: setup ## the broker beside Mosquitto and amqtt, and the cost of its filter
	@$(RUN) -m bench.broker.beside_peers

evaluation: setup ## the published evaluation, repeated: docs/evaluation.md; half an hour, QUICK=1: five minutes, RESUME=1: go on
	@$(RUN) -m bench.evaluation $(if $(QUICK),--size quick) $(if $(DATA),--data $(DATA)) $(if $(RESUME),--resume) $(if $(MINUTES),--minutes $(MINUTES))

check-image: ## the steps of the broker's image in a new Debian root, without Docker; needs root and debootstrap
	@$(PYTHON) deploy/broker/check_image.py

bench-sizes: setup ## bytes of a session, a subscription, a pair, a message: in a broker and in Redis
	@$(RUN) -m bench.broker.sizes

bench-fuzz: setup ## a million mutated inputs against the broker's core
	@$(RUN) -m tests.broker_core.fuzz_run

soak: setup ## a quarter of an hour of rebuilds, kills and churn under load: none lost, none wrong
	@$(RUN) -m tests.soak

bench-rebuild: setup ## rebuilds after a change of one per cent, beside full ones
	@$(RUN) -m bench.rebuild

bench-switch: setup ## latency and memory of a broker that changes over to another generation
	@$(RUN) -m bench.switch

clean: ## remove what demo, tests and benchmarks wrote
	rm -rf lake out spark-warehouse metastore_db derby.log .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .hypothesis

distclean: clean ## remove the environment too
	rm -rf .venv
