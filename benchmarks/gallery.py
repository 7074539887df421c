"""The pictures and numbers of the gallery, in docs/gallery and docs/results/gallery.json.

    python -m benchmarks.gallery FOLDER

FOLDER holds the runs: those that are missing are made by the commands that the pages show (two
tanks a few minutes, Hopper about half an hour, the Swimmer campaign about an hour; extras minari
and mujoco). The picture of the report needs Chromium; without it the old one stays.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from benchmarks.robots.logs import main as robot_logs
from gamps._utils import figures
from gamps._utils.summaries import plain, summary
from gamps.envs import TwoTanks, collect, tanks
from gamps.runs.open_run import open_run
from gamps.runs.rounds import in_charge

DOCS = Path(__file__).parents[1] / "docs"
OURS, OTHER, GREY = "#c1121f", "#1d6fa5", "#888888"
GAMPS = [sys.executable, "-c", "import sys; from gamps.cli import main; main(sys.argv[1:])"]
EPISODES = 200  # fresh ones that measure a policy of the gallery
KNOWN = "--task gamps.envs.tanks:task --features gamps.envs.tanks:clipped"
PLANT = "gamps/TwoTanks-v0 --policy gamps.envs.tanks:policy"
TANKS = (
    f"collect {PLANT} --episodes 60 --dataset tanks/day-v0",
    f"train tanks/day-v0 {KNOWN} --out {{}}",
    "evaluate {}", "report {}", "export {}",
)  # fmt: skip
ROUNDS = (f"campaign {PLANT} --rounds 5 --episodes 100 {KNOWN} --seed 100 --out {{}}", "report {}")
SWIMMER = (
    "campaign Swimmer-v5 --mode trials --rounds 8 --episodes 50 --steps 200 --discount 1 "
    "--task gamps.envs.swimmer:task --features gamps.envs.swimmer:clipped --seed 100 --out {}",
)
HOPPER = (
    "train robots/hopper-medium-0-v0 --task benchmarks.robots.known:hopper "
    "--features benchmarks.robots.known:clipped --out {}",
    "evaluate {}",
    "export {} --which learned",
)


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    pages: tuple[str, ...] = ("tanks", "sepsis", "four_tanks", "hopper", "swimmer"),
) -> None:
    """Run what is missing, then draw the pictures again.

    Args:
      folder: for logs and runs.
      pages: which pages of the gallery.
    """
    folder = folder.absolute()
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
    os.environ.setdefault("MUJOCO_GL", "egl")  # no display is needed
    (DOCS / "gallery").mkdir(exist_ok=True)
    kept = DOCS / "results" / "gallery.json"
    found = json.loads(kept.read_text()) if kept.exists() else {}
    if "tanks" in pages:
        run, rounds = _made(folder / "tanks", TANKS), _made(folder / "rounds", ROUNDS)
        found["tanks"] = _tanks(run, rounds)
        _screenshot(run / "report.html", "report")
    if "sepsis" in pages:
        _sepsis()
    if "four_tanks" in pages:
        _by_round("four_tanks")
    if "hopper" in pages:
        robot_logs(("hopper",), ("medium",), (0,))
        hopper = _made(folder / "hopper", HOPPER)
        found["hopper"] = {"verdict": _verdict(hopper)}
        _moving(hopper / "policy", "Hopper-v5", "hopper-after")
    if "swimmer" in pages:
        swimmer = _made(folder / "swimmer", SWIMMER)
        _by_round("swimmer")
        for which in ("first", "policy"):
            _moving(swimmer / which, "Swimmer-v5", f"swimmer-{which}")
    kept.write_text(json.dumps(plain(found), indent=1) + "\n")


def _made(run: Path, commands: tuple[str, ...]) -> Path:
    """Run the commands of a folder that is missing, or of a campaign that is not finished."""
    if not run.exists() or not any((run / name).exists() for name in ("report.html", "policy")):
        for command in commands:
            _gamps(command.format(run))
    return run


def _gamps(command: str) -> None:
    done = subprocess.run([*GAMPS, *command.split()], check=False)  # noqa: S603
    if done.returncode not in (0, 3, 4):  # 3 and 4 are verdicts
        raise SystemExit(f"gamps {command}: exit status {done.returncode}")


def _tanks(run: Path, rounds: Path) -> dict[str, Any]:
    """Draw the level of the second tank under each policy, and return what each earns."""
    policies = {
        "the controller": tanks.policy(),
        "certified by 60 episodes": in_charge(run),
        "after five certified rounds": in_charge(rounds / "round-5"),
        "learned, not certified": open_run(run).ends.learned,
    }
    figure, axes = figures.panels(1, 4, width=2.6, height=2.6)
    found: dict[str, Any] = {}
    for axis, (name, policy) in zip(axes[0], policies.items(), strict=True):
        log = collect(TwoTanks(), policy, jax.random.key(7), n=EPISODES, steps=tanks.HORIZON)
        returns = np.asarray(log.rewards) @ tanks.DISCOUNT ** np.arange(tanks.HORIZON)
        found[name] = summary(returns)
        colour = {"the controller": GREY, "learned, not certified": OTHER}.get(name, OURS)
        axis.plot(np.asarray(log.observations)[:30, :, 1].T, color=colour, lw=0.7, alpha=0.5)
        axis.axhline(tanks.SET_POINT, color="black", lw=1, ls="--")
        axis.set(xlabel="step", ylim=(0, 1))
        axis.set_title(name, fontsize=10)
    axes[0, 0].set_ylabel("level of the second tank")
    _write(figure, "tanks")
    return {"returns": found, "verdict": _verdict(run)}


def _verdict(run: Path) -> dict[str, str]:
    last = json.loads((run / "judgements.jsonl").read_text().splitlines()[-1])
    return {name: last[name] for name in ("word", "why", "advice")}


def _moving(policy: Path, env: str, name: str) -> None:
    """Keep a moving picture of a policy."""
    played = policy.parent / f"played-{name}"
    _gamps(f"play {policy} --env {env} --episodes 1 --moving --out {played}")
    shutil.copy(played / "play.gif", DOCS / "gallery" / f"{name}.gif")


def _by_round(problem: str) -> None:
    """Draw what the policy in charge earns after each round, one line per campaign."""
    rows = json.loads((DOCS / "results" / "campaign.json").read_text())["results"]
    figure, axes = figures.panels(1, 1, width=5.2, height=3.2)
    axis = axes[0, 0]
    for way, label, colour in (("free", "no model", OTHER), ("models", "models choose", OURS)):
        chosen = [row["worth"] for row in rows if (row["problem"], row["way"]) == (problem, way)]
        for k, worth in enumerate(chosen):
            axis.plot(worth, color=colour, lw=1.4, alpha=0.8, label=label if k == 0 else None)
    limits = json.loads((DOCS / "results" / "process.json").read_text())["results"]
    if problem in limits:
        known = limits[problem]
        for name, style in (("pid", ":"), ("oracle", "--")):
            label = {"pid": "PID", "oracle": "NMPC with the true model"}[name]
            axis.axhline(known[name]["mean"], color="black", lw=1, ls=style, label=label)
    axis.set(xlabel="round", ylabel="return of the policy in charge")
    axis.legend(frameon=False, fontsize=8)
    _write(figure, problem)


def _sepsis() -> None:
    """Draw the exact value of each policy, one dot per log."""
    content = json.loads((DOCS / "results" / "sepsis.json").read_text())
    figure, axes = figures.panels(1, len(content["results"]), width=3.4, height=2.4)
    for axis, (size, found) in zip(axes[0], content["results"].items(), strict=True):
        for row, (name, values) in enumerate(found["values"].items()):
            colour = OURS if name == "gamps" else OTHER
            axis.scatter(values, np.full(len(values), row), s=12, color=colour, alpha=0.6)
        axis.set_yticks(range(len(found["values"])), [n.split(",")[0] for n in found["values"]])
        axis.axvline(content["expert"], color="black", lw=1, ls=":")
        axis.set_title(f"{int(size):,} patients", fontsize=10)
        axis.set_xlabel("chance of survival")
    _write(figure, "sepsis")


def _write(figure: Any, name: str) -> None:
    figure.savefig(DOCS / "gallery" / f"{name}.png", dpi=130, bbox_inches="tight")


def _screenshot(page: Path, name: str) -> None:
    """Take a picture of the top of an HTML page, if Chromium is there."""
    browser = shutil.which("chromium")
    if browser is None:
        print("no Chromium: the picture of the report stays as it was")
        return
    target = DOCS / "gallery" / f"{name}.png"
    words = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,1250"]
    subprocess.run([browser, *words, f"--screenshot={target}", page.as_uri()], check=True)  # noqa: S603


if __name__ == "__main__":
    tyro.cli(main)
