"""Run a benchmark: `python -m benchmarks.engine rollouts --json`."""

from benchmarks import engine
from benchmarks.command_line import main

if __name__ == "__main__":
    main(engine)
