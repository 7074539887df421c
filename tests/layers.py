"""The rooms of the package, from the ground up; a room imports only rooms before it.

`test_layers.py` holds the code to these lists, and `docs/figures.py` draws them.
"""

ROOMS = {
    "_version": "the version",
    "errors": "what can go wrong",
    "trajectories": "a log in memory",
    "tasks": "reward, termination, discount",
    "_utils": "small tools",
    "policies": "stochastic policies, and estimates of an unknown one",
    "models": "transition models",
    "exact": "finite problems by linear algebra",
    "envs": "one file per environment",
    "datasets": "logs on disk",
    "search": "the paper's algorithm",
    "evaluation": "what a policy is worth, from the log of another",
    "learner": "the default learner",
    "deployment": "a policy that runs without gamps",
    "runs": "trainings that leave a run folder",
    "cluster": "many processes",
    "report": "the report on a run",
    "paper": "the paper's tables and figures",
    "cli": "the commands",
}

# Inside `search`: the four parts do not know each other; only the last two groups see them all.
STAGES = [
    {"sampling", "placement"},
    {"importance"},
    {"weights", "fitting", "values", "gradients"},
    {"algorithm", "logged_climb"},
    {"recipes", "streaming"},
]
