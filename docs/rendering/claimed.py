"""The claims page: each claim with its command, its file, and the check that a test runs."""

import math
from collections.abc import Callable
from typing import NamedTuple

from rendering.certificates import certificates, edge, nulls
from rendering.logs import sepsis_gap
from rendering.peers import ahead_of, cell, rivals, staying_up
from rendering.rounds import campaign_rows, deployments, last_of, share_of_the_way
from rendering.tables import in_errors, load, table

GOLF = ("minigolf-50", "minigolf-500", "minigolf-5000")
PEERS = "python -m benchmarks.peers.run all --python PEERS/bin/python"
CAMPAIGN = "python -m benchmarks.studies.campaign FOLDER"
COMMANDS = ("train", "evaluate", "report", "export")
VERDICTS = (0, 3, 4)  # exit statuses of commands that did their work


class Claimed(NamedTuple):
    """What we claim, how to measure it, where the result is, and whether the result shows it."""

    what: str
    command: str
    file: str
    holds: Callable[[], bool]


def claims() -> list[Claimed]:
    """Return every claim, with its numbers."""
    golf = [in_errors(ahead_of(log, name)) for log in GOLF for name in rivals(log)]
    wrong, trials = edge()
    all_rows = load("campaign")["results"]
    count, worse = deployments(all_rows)
    models, free = (last_of("swimmer", way) for way in ("models", "free"))
    ways = [share_of_the_way(name, "models").mean() for name in ("reactor", "four_tanks")]
    null = load("null_campaigns")["results"].values()
    most = max(row["ever"] / row["campaigns"] for row in null)
    power = load("safe_improvement")["results"].values()
    deployed = [certificates(kind) for kind in ("ladder", "markov")]
    falsely = sum(row["worse"] for rows in deployed for row in rows.values())
    streamed = load("streamed_default")["results"]
    commands = [row[k] for rows in streamed.values() for row in rows.values() for k in COMMANDS]
    held = max(one["memory"] for one in commands)
    sizes = " and ".join(
        f"{problem} ({max(map(int, streamed[problem])):,})" for problem in streamed
    )
    ended = all(one["status"] in VERDICTS for one in commands)
    fooled, rare = nulls("rare failure, undeclared")
    speeds = load("import_speed")
    slowest = max(row["ratio"] for row in speeds)
    sepsis = [sepsis_gap(size) for size in load("sepsis")["results"]]
    bare = load("bench-rollouts")["results"]["library"]["ratio_to_bare"]
    return [
        Claimed(
            "On minigolf gamps ends above each of d3rlpy's algorithms that were run, by "
            f"{_at_least(min(golf))} standard errors or more.",
            PEERS, "peers.json", lambda: min(golf) > 2,
        ),
        Claimed(
            f"On InvertedPendulum it stays up to the end on {staying_up('ours')} logs.",
            PEERS, "peers.json", lambda: min(cell("pendulum-100", "ours")["each"]) == 1000,
        ),
        Claimed(
            "On logs of ICU-Sepsis it ends above each other learner that was run, by "
            f"{_at_least(min(a / b for a, b in sepsis))} standard errors or more.",
            "python -m benchmarks.sepsis.run --python SEPSIS/bin/python", "sepsis.json",
            lambda: all(gap > 2 * error for gap, error in sepsis),
        ),
        Claimed(
            f"The verdict is wrongly *deploy* for policies that are just not better in {wrong} of "
            f"{trials:,} trials, at a confidence of 95%, where rare failures are covered by "
            f"declared bounds. **Without declared bounds they fool it in {fooled} of {rare:,}.**",
            "python -m benchmarks.studies false-deploys", "false_deploys.json",
            lambda: wrong <= 0.05 * trials and fooled > 0.05 * rare,
        ),
        Claimed(
            f"In the study of certificates, {falsely} of the certified policies were truly worse "
            "than the controller.",
            "python -m benchmarks.studies certificate", "certificate.json",
            lambda: falsely == 0,
        ),
        Claimed(
            "On the gridworld the ladder shows an improvement at least as often as HCPI, at every "
            "size of the log.",
            "python -m benchmarks.studies safe-improvement", "safe_improvement.json",
            lambda: all(r["ladder"]["better"] >= r["HCPI, t test"]["better"] for r in power),
        ),
        Claimed(
            f"{count} policies were put in charge in {len(all_rows)} campaigns; {worse} of them "
            "were worse than the one before.",
            f"{CAMPAIGN} --problems PROBLEM --campaigns N --ways WAY, once per row of the results",
            "campaign.json", lambda: worse == 0,
        ),
        Claimed(
            f"No kind of worthless candidate is ever deployed in more than {most:.1%} of null "
            "campaigns.",
            "python -m benchmarks.studies null-campaigns", "null_campaigns.json",
            lambda: most <= 0.05,
        ),
        Claimed(
            f"On Swimmer, eight rounds of trials end at {models.mean():.1f} with models and at "
            f"{free.mean():.1f} without.",
            f"{CAMPAIGN} --problems swimmer --campaigns 5 --ways models free", "campaign.json",
            lambda: models.mean() > free.mean() and len(campaign_rows("swimmer", "models")) == 5,
        ),
        Claimed(
            f"In process control, trials come {ways[0]:.0%} and {ways[1]:.0%} of the way from a "
            "PID to model-predictive control with the true model.",
            f"{CAMPAIGN} --problems reactor four_tanks --campaigns 5 --ways models free",
            "campaign.json", lambda: min(ways) >= 0.8,
        ),
        Claimed(
            f"On streamed logs of {sizes} steps, no command of the default holds more than "
            f"{_at_most(held)} GiB.",
            "python -m benchmarks.streamed_default FOLDER --problem PROBLEM",
            "streamed_default.json", lambda: held < 3.5 and ended,
        ),
        Claimed(
            f"Importing a million rows takes at most {_at_most(slowest)} times as long as pyarrow "
            "and h5py alone.",
            "python -m benchmarks.users.import_speed FOLDER", "import_speed.json",
            lambda: slowest < 3,
        ),
        Claimed(
            f"Imagined rollouts take {bare:.2f} of the time of a hand-written jitted kernel.",
            "python -m benchmarks.engine rollouts", "bench-rollouts.json", lambda: bare < 1.05,
        ),
    ]  # fmt: skip


def _at_least(value: float) -> str:
    return f"{math.floor(10 * value) / 10:.1f}"


def _at_most(value: float) -> str:
    return f"{math.ceil(10 * value) / 10:.1f}"


def claimed() -> str:
    """Tabulate the claims."""
    rows = [[one.what, f"`{one.command}`", f"`{one.file}`"] for one in claims()]
    return table(["claim", "command", "file in `docs/results`"], rows)
