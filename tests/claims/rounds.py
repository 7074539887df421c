"""Claims about rounds, and about large and ragged logs."""

from rendering.rounds import (
    acting_last,
    campaign_rows,
    deployments,
    last_of,
    ragged_ratio,
    share_of_the_way,
)
from rendering.tables import load

from claims.claim import says


@says("results.md", "No kind of candidate is ever deployed in more than one campaign in twenty")
def worthless_candidates_stay_out() -> bool:
    rows = load("null_campaigns")["results"].values()
    return all(row["ever"] / row["campaigns"] <= 0.05 for row in rows)


@says("results.md", "With models to choose the candidates, every campaign ends above")
@says("README.md", "best policies found so far. After eight rounds the policy earns")
def models_are_worth_it_on_swimmer() -> bool:
    models, free = (last_of("swimmer", way) for way in ("models", "free"))
    return models.min() >= 55 and models.mean() > free.mean() + 10 and len(models) == 5


@says("results.md", "No policy was put in charge that earns less")
@says("README.md", "none of the new policies earned less than the policy that it replaced")
def no_campaign_made_things_worse() -> bool:
    rows = [row for way in ("models", "free") for row in campaign_rows("swimmer", way)]
    count, worse = deployments(rows)
    return count >= 10 and worse == 0


@says("results.md", "Two tanks improve in almost every round")
def tanks_improve_by_certificates() -> bool:
    rows = campaign_rows("tanks", "nothing")
    count, worse = deployments(rows)
    return count >= 0.9 * sum(len(row["rounds"]) for row in rows) and worse == 0


@says("results.md", "a certificate keeps some of the noise")
def minigolf_keeps_its_noise() -> bool:
    acting, mean = acting_last("minigolf", "nothing"), last_of("minigolf", "nothing")
    return bool((mean > acting + 1).all() and (mean > -4).all())


@says("results.md", "Trials that models choose cover")
@says("README.md", "of the yardstick's improvement over the PID on the reactor")
def models_are_worth_it_in_process_control() -> bool:
    shares = {
        way: [share_of_the_way(name, way).mean() for name in ("reactor", "four_tanks")]
        for way in ("models", "free")
    }
    ahead = all(a > b for a, b in zip(shares["models"], shares["free"], strict=True))
    return min(shares["models"]) >= 0.8 and ahead


@says("results.md", "takes less than three times their time")
@says("results.md", "below two GiB")
def import_is_fast_enough() -> bool:
    return all(row["ratio"] <= 3 and row["ours"]["GiB"] < 2 for row in load("import_speed"))


@says(
    "results.md", "about as long as the even log to train on and to judge by. It needs more memory"
)
def a_ragged_log_costs_memory() -> bool:
    time = all(ragged_ratio(command, "seconds") <= 1.5 for command in ("train", "evaluate"))
    return time and all(ragged_ratio(c, "GiB") > 1.2 for c in ("train", "evaluate"))
