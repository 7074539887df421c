"""Claims about certificates, false deploys, and other methods of safe improvement."""

from rendering.certificates import beyond_noise, certificates, edge, nulls
from rendering.tables import load

from claims.claim import says


def by_others(name: str) -> list[dict]:
    """Return the rows of a method, by the size of the log."""
    return [row[name] for row in load("safe_improvement")["results"].values()]


@says("results.md", "No deployed policy was truly worse")
def nothing_worse_is_deployed() -> bool:
    kinds = ("ladder", "markov", "noise alone")
    return not any(row["worse"] for kind in kinds for row in certificates(kind).values())


@says("results.md", "less noise alone would give most of a certificate")
@says("results.md", "the gain beyond that is sure")
def noise_alone_is_worth_most_on_minigolf() -> bool:
    names = ("minigolf-400", "minigolf-1000")
    both = [(certificates("noise alone")[name]["gain"], certificates()[name]["gain"])
            for name in names]  # fmt: skip
    apart = [beyond_noise(name) for name in names]
    return all(a > b / 2 for a, b in both) and all(mean > 2 * error for mean, error in apart)


@says("results.md", "four thousand games certify a smaller share of what is learned than")
def the_largest_log_of_minigolf_reaches_no_further() -> bool:
    rows = certificates()
    return rows["minigolf-4000"]["of_learned"] < rows["minigolf-1000"]["of_learned"]


@says("results.md", "On the tanks less noise is worth nothing")
def noise_is_worth_nothing_on_the_tanks() -> bool:
    rows = certificates("noise alone")
    return all(row["deploys"] == 0 for name, row in rows.items() if name.startswith("tanks"))


@says("results.md", "With declared bounds the error stays within its limit")
def declared_bounds_hold() -> bool:
    wrong, trials = nulls("rare failure, declared")
    return wrong <= 0.05 * trials


@says("results.md", "less often than the one in twenty that the confidence allows")
def errors_at_the_edge_are_as_rare_as_said() -> bool:
    wrong, trials = edge()
    return wrong <= 0.05 * trials


@says(
    "results.md",
    "Except for rare failures without declared bounds,",
    "in no row do the 99% limits both lie above one in twenty",
)
def no_null_is_above_the_error() -> bool:
    rows = load("false_deploys")["results"]
    return all(row["limits"][0] <= 0.05 for name, row in rows.items() if "undeclared" not in name)


@says("results.md", "SPIBB by its theorem can show nothing from logs of this size")
def the_theorem_shows_nothing() -> bool:
    return not any(row["deploys"] for row in by_others("SPIBB, theorem"))


@says("results.md", "The ladder shows an improvement at least as often as HCPI at every size")
def the_ladder_has_most_power() -> bool:
    ours = by_others("ladder")
    return all(
        one["better"] >= other["better"] and one["gain"] > other["gain"]
        for name in ("HCPI, t test", "HCPI, inequality", "SPIBB, theorem")
        for one, other in zip(ours, by_others(name), strict=True)
    )


@says("results.md", "SPIBB without a guarantee gains most with at least 100 episodes")
@says("results.md", "its policy is the best of all with at least 100 episodes")
def counting_is_enough_on_a_small_grid() -> bool:
    guarded = [by_others(name) for name in ("ladder", "HCPI, t test", "HCPI, inequality")]
    return all(
        row["gain"] > max(rows[i]["gain"] for rows in guarded)
        for name in ("SPIBB, N = 5", "SPIBB, N = 20")
        for i, row in list(enumerate(by_others(name)))[1:]
    )
