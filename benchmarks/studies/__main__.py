"""Run a study: `python -m benchmarks.studies coverage --quick`."""

from tyro.extras import subcommand_cli_from_dict

import benchmarks.studies as commands

subcommand_cli_from_dict(
    {name: getattr(commands, name) for name in commands.__all__},
    prog="python -m benchmarks.studies",
    description=commands.__doc__,
)
