"""Run a study: `python -m benchmarks.studies coverage --quick`."""

from benchmarks import studies
from benchmarks.command_line import main

if __name__ == "__main__":
    main(studies)
