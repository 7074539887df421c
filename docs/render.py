"""Write docs/results.md from the result files in docs/results; no number is typed by hand.

Usage: python docs/render.py
"""

import json
import math
from pathlib import Path

HERE = Path(__file__).parent
LABELS = {"gamps": "GAMPS", "ml": "ML", "pgt": "PGT", "reinforce": "REINFORCE"}


def load(name: str) -> dict:
    """One result file."""
    return json.loads((HERE / "results" / f"{name}.json").read_text(encoding="utf-8"))


def interval(number: dict, digits: int = 3) -> str:
    """Mean and half-width of the 95 % interval."""
    return f"{number['mean']:.{digits}f} ± {(number['high'] - number['low']) / 2:.{digits}f}"


def spread(number: dict, digits: int = 2) -> str:
    """Mean and standard deviation over runs."""
    return f"{number['mean']:.{digits}f} ± {number['std']:.{digits}f}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def estimation() -> str:
    """The estimation table, both fits beside the paper."""
    rows = []
    for file, fit in (("table1-adam", "130 Adam steps"), ("table1-closed", "closed form")):
        content = load(file)
        for name in ("ml", "gamps"):
            ours = content["results"][name]
            keys = ("accuracy", "q_mse", "gradient_cosine", "gradient_cosine_exact")
            rows.append([LABELS[name], fit, *(interval(ours[k]) for k in keys)])
    for name, numbers in load("table1-adam")["paper"].items():
        rows.append([LABELS[name], "paper", *numbers.values(), ""])
    header = ["model", "fit", "p̂ accuracy", "Q̂ MSE", "cosine to sample", "cosine to exact"]
    return table(header, rows)


def curves(layout: str) -> str:
    """Final returns of one layout."""
    content = load(f"gridworld-{layout}")
    results, rows = content["results"], []
    for treatment in content["settings"]["baselines"]:
        for n, recipes in results[treatment].items():
            paired = results["gamps_minus"][treatment][n]
            ahead = min(paired, key=lambda name: paired[name]["mean"])
            error = paired[ahead]["std"] / math.sqrt(paired[ahead]["n"])
            gap = f"{paired[ahead]['mean']:+.3f} ± {error:.3f} ({LABELS[ahead]})"
            row = [spread(recipes[name]["final"]) for name in LABELS]
            rows.append([treatment.replace("_", " "), n, *row, gap])
    header = ["baseline", "N", *LABELS.values(), "GAMPS − nearest (paired, s.e.)"]
    return table(header, rows)


def simple(file: str, columns: dict[str, str]) -> str:
    """Rows of a result file by name, some columns of it."""

    def shown(number: dict) -> str:
        return "∞" if number["mean"] is None else f"{number['mean']:.3g} ± {number['std']:.2g}"

    rows = [
        [name, *(shown(numbers[c]) if c in numbers else "" for c in columns)]
        for name, numbers in load(file)["results"].items()
    ]
    return table(["", *columns.values()], rows)


def minigolf() -> str:
    """Final policies of minigolf, every treatment."""
    rows = []
    for treatment, by_std in load("minigolf")["results"].items():
        for std, numbers in by_std.items():
            for name, label in LABELS.items():
                row, gap = numbers[name], numbers["paired"].get(name)
                rows.append(
                    [
                        treatment.replace("_", " "),
                        std,
                        label,
                        *(spread(row[k]) for k in ("final", "best")),
                        *(f"{row[k]['mean']:.3f}" for k in ("holes", "overshoots")),
                        spread(row["mean_action"]),
                        f"{gap['mean']:+.2f} ± {gap['standard_error']:.2f}" if gap else "",
                    ]
                )
    header = ["treatment", "std", "recipe", "final", "best", "holes", "overshoots", "mean action"]
    return table([*header, "GAMPS − it (paired, s.e.)"], rows)


def gap(number: dict | None, digits: int = 2) -> str:
    """A paired difference and its standard error."""
    if number is None:
        return ""
    error = number.get("standard_error")
    if error is None:
        error = number["std"] / math.sqrt(number["n"])
    return f"{number['mean']:+.{digits}f} ± {error:.{digits}f}"


def words(changes: dict) -> str:
    """A treatment in a line."""
    said = [f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in changes.items()]
    return ", ".join(said).replace("_", " ") or "as the paper"


def swimmer(file: str = "swimmer") -> str:
    """Final policies of Swimmer, every treatment."""
    columns = ("final", "mean", "max", "mean_action")
    rows = [
        [
            treatment,
            label,
            *(spread(numbers[name][k], 1) for k in columns),
            gap(numbers["paired"].get(name)),
        ]
        for treatment, numbers in load(file)["results"].items()
        for name, label in LABELS.items()
    ]
    header = ["treatment", "recipe", "final", "mean", "max", "mean action"]
    return table([*header, "GAMPS − it (paired, s.e.)"], rows)


def exploration() -> str:
    """Every setting that was tried on Swimmer."""
    rows = []
    for recipe, found in load("exploration")["results"].items():
        for i, row in enumerate(found["trials"]):
            mark = "**chosen**" if i == found["chosen"] else ""
            final = row["final"]
            setting = words(row["changes"])
            rows.append([LABELS[recipe], setting, spread(final, 1), str(final["n"]), mark])
    return table(["recipe", "changes to the paper's setting", "final", "runs", ""], rows)


def ablation() -> str:
    """One part of the stabilised recipe changed at a time."""
    rows = [
        [name, spread(row["final"], 1), "" if name == "as chosen" else gap(row["difference"], 1)]
        for name, row in load("ablation")["results"].items()
    ]
    return table(["changed", "final", "difference (paired, s.e.)"], rows)


def stabilised_elsewhere() -> str:
    """The stabilised recipe on minigolf and the gridworld, beside the literal one."""
    rows = []
    for std, numbers in load("minigolf-stabilised")["results"]["stabilised"].items():
        plain = load("minigolf")["results"]["none"][std]["gamps"]["final"]
        rows.append(_elsewhere(f"minigolf, std {std}", plain, numbers, numbers["paired"]))
    for layout in ("A", "plain"):
        results = load(f"gridworld-{layout}-stabilised")["results"]
        literal = load(f"gridworld-{layout}")["results"]["none"]
        for n, numbers in results["stabilised"].items():
            plain = literal[n]["gamps"]["final"]
            others = results["gamps_minus"]["stabilised"][n]
            rows.append(_elsewhere(f"gridworld {layout}, N = {n}", plain, numbers, others))
    header = ["problem", "GAMPS literal", *(f"{label} stabilised" for label in LABELS.values())]
    return table([*header, "GAMPS − nearest (paired, s.e.)"], rows)


def _elsewhere(problem: str, literal: dict, numbers: dict, paired: dict) -> list[str]:
    ahead = min(paired, key=lambda name: paired[name]["mean"])
    finals = [spread(numbers[name]["final"]) for name in LABELS]
    return [problem, spread(literal), *finals, f"{gap(paired[ahead], 3)} ({LABELS[ahead]})"]


def overview() -> str:
    """One row a problem and treatment, and what the paper says."""

    def row(problem: str, command: str, treatment: str, numbers: dict, digits: int) -> list[str]:
        finals = [spread(numbers[name]["final"], digits) for name in LABELS]
        return [problem, f"`gamps reproduce {command}`", treatment, *finals]

    rows = []
    for layout in ("A", "plain"):
        problem, command = f"gridworld {layout}, N = 50", f"gridworld --layout {layout}"
        literal = load(f"gridworld-{layout}")["results"]["none"]["50"]
        best = load(f"gridworld-{layout}-stabilised")["results"]["stabilised"]["50"]
        rows.append(row(problem, command, "literal", literal, 2))
        rows.append(row(problem, f"{command} --baselines stabilised", "stabilised", best, 2))
    golf = load("minigolf")["results"]
    best = load("minigolf-stabilised")["results"]["stabilised"]["1"]
    rows.append(row("minigolf, std 1", "minigolf", "literal", golf["none"]["1"], 2))
    rows.append(row("minigolf, std 1", "minigolf", "per time", golf["per_time"]["1"], 2))
    command = "minigolf --treatments stabilised"
    rows.append(row("minigolf, std 1", command, "stabilised", best, 2))
    for treatment, numbers in load("swimmer")["results"].items():
        rows.append(row("swimmer", "swimmer", treatment, numbers, 1))
    return table(["problem", "command", "treatment", *LABELS.values()], rows)


def rollouts() -> str:
    """Speed of the rollout kernels."""
    rows = [
        [
            name,
            f"{row['ns_per_step']:.0f}",
            f"{row['ratio_to_bare']:.2f}",
            f"{100 * row['share_of_peak']:.0f} %",
        ]
        for name, row in load("bench-rollouts")["results"].items()
    ]
    return table(["kernel", "ns per model step", "ratio to bare", "share of sgemm peak"], rows)


def noise() -> str:
    """Variance and time of the gradient, by arrangement of the noise."""
    rows = [
        [problem, baseline, name, *(f"{number:.2f}" for number in row.values())]
        for problem, by_baseline in load("bench-noise")["results"].items()
        for baseline, by_name in by_baseline.items()
        for name, row in by_name.items()
    ]
    return table(["problem", "baseline", "noise", "variance", "time", "variance × time"], rows)


def who() -> dict[str, str]:
    """Names of those compared, ours in bold."""
    labels = load("peers")["settings"]["labels"]
    return labels | {"ours": f"**{labels['ours']}**"}


def peers() -> str:
    """Every finished cell of the comparison."""
    rows = []
    for name, found in load("peers")["results"].items():
        for name_of, label in who().items():
            if name_of not in found:
                continue
            row = found[name_of]
            columns = [spread(row[k]) for k in ("final", "chosen", "best")]
            least, seconds = f"{row['least']:.2f}", f"{row['seconds']:.0f}"
            rows.append([name, label, str(row["final"]["n"]), *columns, least, seconds])
    header = ["log", "who", "logs", "final", "by its own rule", "best in truth", "least", "s"]
    return table(header, rows)


def peer_trials() -> str:
    """Settings tried for each peer."""
    rows = []
    for family, by_algorithm in load("peers")["settings"]["trials"].items():
        for algorithm, trials in by_algorithm.items():
            best = max(trials, key=lambda trial: trial["mean"])
            named = ", ".join(f"{k} {v}" for k, v in best["settings"].items()) or "defaults"
            means = ", ".join(f"{trial['mean']:.1f}" for trial in trials)
            rows.append([family, who()[algorithm], means, named])
    return table(["problem", "peer", "mean of each trial", "chosen"], rows)


def paired_gap(ours: dict, other: dict) -> str:
    """Mean difference on the logs that both have, with its standard error."""
    theirs = dict(zip(other["seeds"], other["each"], strict=True))
    own = zip(ours["seeds"], ours["each"], strict=True)
    gaps = [value - theirs[seed] for seed, value in own if seed in theirs]
    mean = sum(gaps) / len(gaps)
    if len(gaps) < 2:
        return f"{mean:+.2f}"
    error = math.sqrt(sum((g - mean) ** 2 for g in gaps) / (len(gaps) - 1) / len(gaps))
    return f"{mean:+.2f} ± {error:.2f}"


def nearest() -> str:
    """Our return less each peer's, on the logs that both were run on."""
    rows = []
    for name, found in load("peers")["results"].items():
        if "ours" in found:
            rivals = [w for w in who() if w in found and w not in ("ours", "truth")]
            columns = [f"{who()[w]} {paired_gap(found['ours'], found[w])}" for w in rivals]
            rows.append([name, "; ".join(columns)])
    return table(["log", "gamps - peer, paired by log, ± s.e."], rows)


def decisions() -> str:
    """The default beside each decision taken away, on the logs that both have."""
    rows = []
    for name, found in load("peers")["results"].items():
        for variant in ("last", "β = 0", "β = 1", "quadratic", "network"):
            if variant == "last":
                other = found.get("ours", {}).get("each_last", [])
            else:
                other = found.get(variant, {}).get("each", [])
            if len(other) < 2:
                continue
            source = found["ours" if variant == "last" else variant]
            gap = paired_gap(found["ours"], {"each": other, "seeds": source["seeds"]})
            label = "the last iterate" if variant == "last" else variant
            average = f"{sum(other) / len(other):.2f}"
            rows.append([name, label, str(len(other)), average, gap])
    header = ["log", "fixed", "logs", "return", "default - it (paired, ± s.e.)"]
    return table(header, rows)


def awareness() -> str:
    """Cosines of the map."""
    content, rows = load("awareness"), []
    names = ["ML", "ratio", "score", "ω", "√ω"]
    for n, by_class in content["results"].items():
        for name, by_distance in by_class.items():
            for distance, row in by_distance.items():
                rows.append([n, name, distance, *(interval(row[w], 2) for w in names)])
    return table(["trajectories", "model", "distance", *names], rows)


def coverage() -> str:
    """Coverage of the four estimators with Student's t, and of the bounds that always hold."""
    names = ("per-decision", "self-normalised", "doubly robust", "weighted doubly robust")
    rows = []
    for name, cell in load("coverage")["results"]["cells"].items():
        misses = cell["misses"]
        shown = [f"{1 - misses[f'{n}, student']['all']:.3f}" for n in names]
        problem = f"{name.rpartition('-')[0]} {cell['distance']:g}"
        effective, good = f"{cell['effective']:.3f}", f"{cell['grades']['good']:.2f}"
        rows.append([problem, effective, good, *shown, f"{1 - misses['guaranteed']['all']:.3f}"])
    return table(["problem, distance", "effective", "graded good", *names, "guaranteed"], rows)


def intervals() -> str:
    """Every interval: where support is adequate, and what of its misses elsewhere is flagged."""
    rows = []
    for name, numbers in load("coverage")["results"]["summary"].items():
        low, high = numbers["adequate"]
        flagged = (
            f"{numbers['flagged']:.3f} of {numbers['misses']}" if numbers["misses"] else "none"
        )
        rows.append([name, f"{low:.3f} to {high:.3f}", flagged])
    return table(["estimate, interval", "coverage, adequate", "misses elsewhere flagged"], rows)


def bounds_of_verdicts(grade: str) -> str:
    """How often the lower bound of a verdict is above the truth, over policies often so graded."""
    cells = load("coverage")["results"]["cells"].values()
    shares = [c["verdict"][grade] for c in cells if c["grades"][grade] >= 0.05]
    return f"{min(shares):.1%} to {max(shares):.1%}"


def safety() -> str:
    """Verdicts by problem and size."""
    rows = []
    for name, row in load("safety")["results"]["rows"].items():
        wrong = f"{row['wrong']} ({row['wrong'] / max(row['worse'], 1):.1%})"
        power = f"{row['power']:.0%}"
        rows.append(
            [name, str(row["worse"]), wrong, str(row["better"]), power, str(row["slandered"])]
        )
    header = ["", "truly worse", "deploy said", "truly better", "deploy said", "worse said"]
    return table(header, rows)


def judged_by_peers() -> str:
    """Errors of estimates beside those of d3rlpy and SCOPE-RL."""
    content = load("evaluation")
    rms, bias = content["results"]["rms"], content["results"]["bias"]
    rows = [
        [name, *(f"{r:.1f} ({b:+.1f})" for r, b in zip(rms[name], bias[name], strict=True))]
        for name in rms
    ]
    distances = [f"distance {d:g}" for d in content["settings"]["distances"]]
    return table(["estimate", *distances], rows)


def page() -> str:
    """The whole page."""
    text = (HERE / "results.md.in").read_text(encoding="utf-8")
    slow = load("minigolf-slow")["results"]["per_time"]["1"]["gamps"]
    parts = {
        "ESTIMATION": estimation(),
        "CURVES_A": curves("A"),
        "CURVES_PLAIN": curves("plain"),
        "WEIGHTS": simple("weights", {"lower": "in S1", "upper": "in S2"}),
        "MINIGOLF": minigolf(),
        "SLOW_HOLES": spread(slow["holes"], 3),
        "SLOW_FINAL": spread(slow["final"]),
        "SLOW_MEAN": spread(slow["mean_action"]),
        "MINIGOLF_BEHAVIOUR": f"{load('minigolf')['settings']['behaviour_mean_action']:.2f}",
        "MINIGOLF_OPTIMUM": f"{load('minigolf')['settings']['optimum']:.2f}",
        "SWIMMER": swimmer(),
        "EXPLORATION": exploration(),
        "ABLATION": ablation(),
        "ELSEWHERE": stabilised_elsewhere(),
        "OVERVIEW": overview(),
        "N_TRIALS": str(len(load("exploration")["results"]["gamps"]["trials"])),
        "FIRST_ABLATION": str(load("ablation")["settings"]["seeds"][0]),
        "LAST_ABLATION": str(load("ablation")["settings"]["seeds"][-1]),
        "N_ABLATION": str(len(load("ablation")["settings"]["seeds"])),
        "CHOSEN_ABLATION": spread(load("ablation")["results"]["as chosen"]["final"], 1),
        "TRUTH": spread(load("swimmer-truth")["final"], 1),
        "PEERS": peers(),
        "PEER_TRIALS": peer_trials(),
        "NEAREST": nearest(),
        "DECISIONS": decisions(),
        "AWARENESS": awareness(),
        "N_AWARENESS": str(load("awareness")["settings"]["seeds"]),
        "GOLF_OPTIMUM": f"{load('peers')['settings']['optimum']['minigolf']:.2f}",
        "COVERAGE": coverage(),
        "INTERVALS": intervals(),
        "VERDICT_GOOD": bounds_of_verdicts("good"),
        "VERDICT_FAIR": bounds_of_verdicts("fair"),
        "SAFETY": safety(),
        "N_SAFETY": str(
            sum(load("safety")["results"]["rows"]["all"][k] for k in ("worse", "better"))
        ),
        "JUDGED_BY_PEERS": judged_by_peers(),
        "N_JUDGED": str(load("evaluation")["settings"]["logs"]),
        "ROLLOUTS": rollouts(),
        "NOISE": noise(),
        "QNORM": simple("qnorm", {"final": "final return", "best": "best return"}),
        "BOUNDS": simple(
            "bounds",
            {
                "error": "true error",
                "gradient_aware": "Theorem 1, corrected",
                "gradient_aware_printed": "Theorem 1, printed",
                "gradient_unaware": "ML bound",
                "twice_visited": "ML bound, provable",
            },
        ),
    }
    for name, content in parts.items():
        text = text.replace(f"@{name}@", content)
    return text


if __name__ == "__main__":
    (HERE / "results.md").write_text(page(), encoding="utf-8")
