"""Who makes the best policy of the same log: gamps, and eight algorithms of d3rlpy.

    python -m benchmarks.peers.run all --python PEERS/bin/python   # everything; resumes
    python -m benchmarks.peers.run cell minigolf-50 ours 0         # one training
    python -m benchmarks.peers.run draw                            # table and figure

PEERS is an environment of its own: python -m venv PEERS, then PEERS/bin/pip install -r
benchmarks/peers/requirements.txt; gamps needs its extras minari and mujoco. What is done is kept
in --out and never run again. `all` has hours of work; --domains minigolf-50 is a part of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from tyro.extras import SubcommandApp

from benchmarks.peers import kept, ours, peers
from benchmarks.peers.domains import DOMAINS, GOLF, TUNING
from gamps._utils import console, figures, summaries
from gamps._utils.compile_cache import keep_compiled
from gamps._utils.worker_pool import cores
from gamps.errors import GampsError, SettingError
from gamps.paper.cells import run_cells

OUT = Path("runs/peers")
SMALL = ("minigolf-50", "swimmer-100", "pendulum-100")
LABELS = {
    "behaviour": "behaviour, noise off",
    "bc": "BC",
    "iql": "IQL",
    "cql": "CQL",
    "td3bc": "TD3+BC",
    "awac": "AWAC",
    "rebrac": "ReBRAC",
    "mopo": "MOPO",
    "combo": "COMBO",
    "ours": "gamps",
    "random": "actions at random",
    "truth": "gamps, true model",
}
app = SubcommandApp()


def _ours(
    domains: tuple[str, ...],
    variants: tuple[str, ...],
    out: Path,
    workers: int,
    seeds: Sequence[int] | None = None,
) -> dict[str, dict[str, Any]]:
    cells = {
        f"{name}-{variant}-{seed}": {
            "domain": name,
            "variant": variant,
            "seed": seed,
            "logs": str(out / "logs"),
        }
        for name in domains
        for variant in variants
        for seed in (range(DOMAINS[name].logs) if seeds is None else seeds)
    }
    with console.bar("gamps", len(cells)) as advance:
        return run_cells(ours.work, cells, out / "ours", workers=workers, advance=advance)


@app.command(name="all")
def run_all(
    *,
    python: str,
    out: Path = OUT,
    domains: tuple[str, ...] = tuple(DOMAINS),
    workers: int = cores(),
) -> None:
    """Run every cell that is missing, ours and the peers', then draw.

    Args:
      python: of the peers' environment.
      out: folder for logs, cells, table and figure.
      domains: which logs.
      workers: processes for our trainings; a peer's training has one core.
    """
    _ours(domains, ("behaviour", "default"), out, workers)
    _ours(domains, ("random",), out, workers, seeds=[0])
    small = tuple(name for name in domains if name in SMALL)
    _ours(small, ("truth", *(v for v in ours.VARIANTS if v != "default")), out, workers)
    for name in domains:
        peers.reported(name, out, python)
    draw(out=out)


@app.command(name="ours")
def run_ours(
    *,
    variants: tuple[str, ...] = ("default",),
    domains: tuple[str, ...] = SMALL,
    logs: int = 10,
    out: Path = OUT,
    workers: int = cores(),
) -> None:
    """Run trainings of ours alone.

    Args:
      variants: default, half, estimated, behaviour, random.
      domains: which logs.
      logs: of each.
      out: folder for logs and cells.
      workers: processes.
    """
    for name in domains:
        _ours((name,), variants, out, workers, range(min(logs, DOMAINS[name].logs)))


@app.command(name="peers")
def run_peers(*, python: str, domains: tuple[str, ...], out: Path = OUT) -> None:
    """Run the peers alone.

    Args:
      python: of the peers' environment.
      domains: which logs.
      out: folder for logs and cells.
    """
    for name in domains:
        peers.reported(name, out, python)


@app.command
def cell(
    domain: Annotated[str, tyro.conf.Positional],
    who: Annotated[str, tyro.conf.Positional],
    seed: Annotated[int, tyro.conf.Positional],
    /,
    *,
    python: str = "",
    trial: int | None = None,
    out: Path = OUT,
) -> None:
    """Run one training and print its result.

    Args:
      domain: for example minigolf-50.
      who: ours, or bc, iql, cql, td3bc, awac, rebrac, mopo, combo.
      seed: of the log.
      python: of the peers' environment.
      trial: number of a peer's setting; by default the published one on the robots, elsewhere
        the library's default, 0.
      out: folder for the log and the cell.
    """
    known = {"domain": (domain, DOMAINS), "who": (who, ("ours", *peers.TRIALS))}
    for name, (given, choices) in known.items():
        if given not in choices:
            raise SettingError(name, repr(given), f"Choose one of {', '.join(choices)}")
    if who == "ours":
        (made,) = _ours((domain,), ("default",), out, workers=1, seeds=[seed]).values()
    else:
        published = peers.PUBLISHED[who] if domain in peers.ROBOTS else 0
        cells = peers.cells_of(domain, [seed], {who: [published if trial is None else trial]})
        (made,) = peers.run(cells, out, python).values()
    console.terminal.print_json(json.dumps(made))


def _result(path: Path, seed: int) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["result"]
    if "run" in result:
        result["promise"] = result["run"]["best_promise"]
    return result | {"seed": seed}


def _kept(out: Path, trials: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Results of all reported cells, by domain and who; of peers, those of their best trial."""
    table: dict[str, dict[str, Any]] = {}
    for name, domain in DOMAINS.items():
        rows: dict[str, list[dict[str, Any]]] = {}
        tried = trials.get(name.split("-")[0], {})
        chosen = {
            algorithm: max(range(len(tried[algorithm])), key=lambda i: tried[algorithm][i]["mean"])
            if algorithm in tried
            else (peers.PUBLISHED[algorithm] if name in peers.ROBOTS else 0)
            for algorithm in peers.TRIALS
        }
        for seed in range(domain.logs):
            for variant in ("random", "behaviour", "truth", *ours.VARIANTS):
                path = out / "ours" / f"{name}-{variant}-{seed}.json"
                if path.exists():
                    who = "ours" if variant == "default" else variant
                    rows.setdefault(who, []).append(_result(path, seed))
            for algorithm, trial in chosen.items():
                path = out / "cells" / f"{name}-{algorithm}-{trial}-{seed}.json"
                if path.exists():
                    rows.setdefault(algorithm, []).append(_result(path, seed))
        table[name] = rows
    return table


@app.command
def draw(*, out: Path = OUT, earlier: Path | None = None) -> None:
    """Table and figure of what is finished.

    Args:
      out: folder of the cells; peers.json and peers.png are written there.
      earlier: a peers.json whose cells are not at hand: its logs are added, and its choice of a
        setting for each peer is kept. A row of ours is replaced once all its logs were run again.
    """
    known: dict[str, Any] = {"results": {}}
    trials = {family: _trials(where, out) for family, where in peers.TRIED_ON.items()}
    if earlier is not None:
        known = json.loads(earlier.read_text(encoding="utf-8"))
        trials = known["settings"]["trials"]  # rows of one setting only are put together
    cells = _kept(out, trials)
    if not any(cells.values()):
        raise SettingError("out", f"{out} holds no finished cell", "Run `all` or `cell` first")
    results = {name: {who: kept.row(runs) for who, runs in rows.items()}
               for name, rows in cells.items()}  # fmt: skip
    for name, rows in known["results"].items():
        for who, row in rows.items():
            now = results[name].get(who)
            results[name][who] = kept.together(row, now) if now else row
    settings = {
        "labels": LABELS,
        "logs": {name: domain.logs for name, domain in DOMAINS.items()},
        "steps": {name: domain.steps for name, domain in DOMAINS.items()},
        "trials": trials,
        "optimum": {"minigolf": float(GOLF.optimal_return())},
    }
    out.mkdir(parents=True, exist_ok=True)
    console.save(
        out,
        "peers",
        settings=settings,
        results=results,
        paper={},
        figure=_figure(results),
        table=_table(results),
    )


def _trials(where: str, out: Path) -> dict[str, list[dict[str, Any]]]:
    """Every setting that was tried, and what it ended with on the tuning logs."""
    found: dict[str, list[dict[str, Any]]] = {}
    for algorithm, trials in peers.TRIALS.items():
        for i, trial in enumerate(trials):
            paths = [out / "trials" / "cells" / f"{where}-{algorithm}-{i}-{s}.json" for s in TUNING]
            values = [json.loads(p.read_text())["result"]["final"] for p in paths if p.exists()]
            if values:
                row = {"settings": trial, "mean": float(np.mean(values)), "each": values}
                found.setdefault(algorithm, []).append(row)
    return found


def _table(results: dict[str, Any]) -> Any:
    table = console.rich_table(
        "Mean action, fresh episodes of the true simulator (mean ± std over logs)",
        ["log", "who", "logs", "final", "by its own rule", "best in truth", "least", "seconds"],
        caption="final: the policy that training ends with; of gamps, the one it hands out. By its "
        "own rule: a peer's checkpoint with the highest value of its own critic at the starts. "
        "Best in truth: chosen by the simulator, which nobody has. Seconds: of the processor; of "
        "gamps mostly without compilation, which timing.py has.",
    )
    for name, rows in results.items():
        for who, label in LABELS.items():
            if who in rows:
                row = rows[who]
                table.add_row(
                    name,
                    label,
                    str(row["final"]["n"]),
                    *(summaries.spread(row[k], 2) for k in ("final", "chosen", "best")),
                    f"{row['least']:.2f}",
                    f"{row['seconds']:.0f}",
                )
        table.add_section()
    return table


def _figure(results: dict[str, Any]) -> Any:
    shown = {name: rows for name, rows in results.items() if rows}
    figure, axes = figures.panels(2, -(-len(shown) // 2), width=3.6, height=2.9)
    for axis, (name, rows) in zip(axes.ravel(), shown.items(), strict=False):
        present = [who for who in LABELS if who in rows and who != "random"]
        for i, who in enumerate(present):
            each = rows[who]["each"]
            colour = "tab:red" if who in ("ours", "truth") else "tab:blue"
            axis.plot(each, [i] * len(each), ".", color=colour, alpha=0.35)
            axis.plot([np.mean(each)], [i], "|", color=colour, markersize=14, markeredgewidth=2)
        axis.set_yticks(range(len(present)), [LABELS[who] for who in present], fontsize=7)
        axis.set_title(name, fontsize=9)
    for axis in axes.ravel()[len(shown) :]:
        axis.set_axis_off()
    figure.suptitle("Return of the final policy's mean action, one dot a log", fontsize=10)
    return figure


if __name__ == "__main__":
    keep_compiled()
    try:
        app.cli(description=__doc__)
    except GampsError as error:
        sys.exit(str(error))
