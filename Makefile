# Two commands for newcomers: `make run` and `make test`. Everything else is for those who stay.
.PHONY: run test test-fast lint bench clean
PYTHON_BIN = .venv/bin/python

run:
	@deploy/bootstrap.sh requirements.txt
	@exec $(PYTHON_BIN) manage.py up

test:
	@deploy/bootstrap.sh requirements-dev.txt
	@exec $(PYTHON_BIN) -m tests.support.run all

test-fast:
	@deploy/bootstrap.sh requirements-dev.txt
	@exec $(PYTHON_BIN) -m tests.support.run fast

lint:
	@deploy/bootstrap.sh requirements-dev.txt
	@exec $(PYTHON_BIN) -m tests.support.run lint

bench:
	@deploy/bootstrap.sh requirements-dev.txt
	@$(PYTHON_BIN) -m bench.agent_bench
	@$(PYTHON_BIN) -m bench.telemetry_bench

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache test-results
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
