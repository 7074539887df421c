"""Run a benchmark: `python -m benchmarks.engine rollouts --json`."""

from tyro.extras import subcommand_cli_from_dict

import benchmarks.engine as commands

subcommand_cli_from_dict(
    {name: getattr(commands, name) for name in commands.__all__},
    prog="python -m benchmarks.engine",
    description=commands.__doc__,
)
