"""Claims about harm by learned policies, and about what their models promise."""

from rendering.tables import load

from claims.claim import says


@says("results.md", "all of Hopper")
def only_hopper_is_harmed() -> bool:
    rows = load("promises")["results"]["logs"].items()
    return all(row["failed"]["mean action"] == 0 for name, row in rows if name != "hopper")


@says("results.md", "On Swimmer with 100 episodes they promise far too much")
def swimmer_is_promised_too_much() -> bool:
    gaps = load("promises")["results"]["logs"]["swimmer-100"]["gaps"]
    return sorted(gaps)[len(gaps) // 2] > 0.3
