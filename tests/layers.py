"""The layers of the package, from the ground up; imports go down only.

`test_layers.py` holds the code to this list, and `docs/figures.py` draws it.
"""

LAYERS = [
    ("ground: the log, the task, and small tools", [
        "trajectories", "tasks", "tabular", "errors", "sampling", "sharding", "settings", "noise",
        "linear", "networks", "compilation", "processes", "_utils", "_version",
    ]),
    ("what acts and what moves", ["policies", "models", "envs"]),
    ("the ratios of policy to behaviour", ["importance"]),
    ("parts that do not know each other", ["weights", "fitting", "values", "gradients"]),
    ("the loop, which sees all parts", ["search"]),
    ("what is made of the loop", [
        "recipes", "learning", "streaming", "training", "launching", "checkpoints", "datasets",
        "behaviour", "inspection", "evaluation", "theory", "exporting", "deployed",
    ]),
    ("what a user runs and looks at", ["cli", "experiments", "bench", "report"]),
]  # fmt: skip
WITHIN = {0, 1, 5, 6}  # layers whose modules may import one another
LEVEL = {name: level for level, (_, names) in enumerate(LAYERS) for name in names}
