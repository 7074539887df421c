"""Claims about speed, noise, bounds and scale."""

from rendering import scale
from rendering.speed import kernels, noises
from rendering.tables import load

from claims.claim import says

SHARED, COMMON = "shared by blocks", "common to all starts"


@says("results.md", "PyTorch comes close, or is ahead by")
def pytorch_is_a_little_ahead() -> bool:
    ratio = min(kernels("torch").values()) / kernels("library")["library"]
    return 0.8 < ratio < 1


@says("results.md", "None of PyTorch's three fastest arrangements goes by rows or with fresh noise")
def in_the_arrangement_of_the_library() -> bool:
    names = kernels("torch")
    return len(names) == 3 and all("columns, shared noise" in name for name in names)


@says("results.md", "raises the variance of the gradient in three of the four cases")
def sharing_raises_the_variance() -> bool:
    return [case[SHARED]["variance"] > 1.5 for case in noises()].count(True) == 3


@says("results.md", "Antithetic pairs undo the increase.")
@says("results.md", "nearly linear in the noise, they leave only a small part of the variance")
def antithetic_pairs_take_it_back() -> bool:
    left = [case[f"{SHARED}, antithetic"]["variance"] for case in noises()]
    return max(left) < 1.1 and min(left) < 0.1


@says(
    "results.md",
    "shared blocks with antithetic pairs, the default, are the best of the six in every case",
)
def the_default_is_best() -> bool:
    best = [min(case, key=lambda name: case[name]["variance_times_time"]) for case in noises()]
    return set(best) == {f"{SHARED}, antithetic"}


@says("results.md", "starting states is hardly faster, and except in one case its variance is")
def common_noise_is_worse() -> bool:
    hardly = all(case[COMMON]["time"] > case[SHARED]["time"] / 1.5 for case in noises())
    return hardly and [case[COMMON]["variance"] > 100 for case in noises()].count(True) == 3


@says(
    "results.md",
    "The corrected bound puts the gradient-aware model first, the mixed one second",
    "and the other two last, as the true error does",
)
def the_bound_orders_models() -> bool:
    found = load("bounds")["results"]
    orders = [
        sorted(found, key=lambda name: found[name][key]["mean"])[:2]
        for key in ("gradient_aware", "error")
    ]
    return orders == [["gamps", "mixed"]] * 2


@says("results.md", "The corrected Theorem 1 holds everywhere")
def the_bound_holds() -> bool:
    rounding = 1e-12
    rows = load("bounds")["results"].values()
    return all(row["gradient_aware"]["mean"] > row["error"]["mean"] - rounding for row in rows)


@says("results.md", "Bounds that weigh by visits alone are infinite for that model")
def bounds_by_visits_are_infinite() -> bool:
    found = load("bounds")["results"]["gamps"]
    return found["gradient_unaware"]["mean"] is found["twice_visited"]["mean"] is None


@says("results.md", "The order of the norm makes no difference here")
@says("results.md", "In this layout q = 2 does not differ either")
def the_order_of_the_norm_is_nothing() -> bool:
    return len({row["final"]["mean"] for row in load("qnorm")["results"].values()}) == 1


@says("scale.md", "and rollouts take the time")
def the_time_is_rollouts() -> bool:
    rest, step = scale.constants()
    return 2 * scale.M * scale.H * step > 5 * scale.PASSES * rest


@says("scale.md", "with one pair in a hundred, one machine is enough")
def one_machine_is_enough() -> bool:
    return scale.core_seconds(1e9, 0.01) / scale.CORES / scale.SHARE < 600


@says("scale.md", "kB, whatever the length of the log; on shards")
def the_network_does_not_grow() -> bool:
    sent = [cell["wire"] for cell in load("scale")["results"]["wire"].values()]
    return max(sent) < 1.01 * min(sent)
