"""Claims about Swimmer: its table, the exploration, the parts."""

from rendering.swimmer import changed, swum, swum_errors, trial
from rendering.tables import error, in_errors, load

from claims.claim import says

THREE = ("gamps", "ml", "pgt")


def two_runs(name: str) -> tuple[float, float]:
    """Return both results of a variant that was run twice, from mean and standard error."""
    final = load("ablation")["results"][name]["final"]
    assert final["n"] == 2
    return final["mean"] - error(final), final["mean"] + error(final)


@says("results.md", "with no difference between GAMPS, ML and PGT that 20 runs could show")
def no_difference_in_the_literal_setting() -> bool:
    return all(abs(swum_errors("literal", other)) < 2 for other in ("ml", "pgt"))


@says("results.md", "Treatment matters far more than the recipe.")
def treatment_matters_more() -> bool:
    return min(swum("stabilised", *THREE)) > max(swum("literal")) + 10


@says(
    "results.md",
    "GAMPS is first. It is ahead of PGT and REINFORCE by more than two standard errors;",
    "of ML it is not",
)
def first_at_its_best() -> bool:
    sure = min(swum_errors("stabilised", other) for other in ("pgt", "reinforce")) > 2
    return sure and 0 < swum_errors("stabilised", "ml") < 2


@says(
    "results.md",
    "The spread over logs is larger than any difference between these three,",
    "and each recipe's highest iteration is above its last one",
)
def logs_differ_more_than_recipes() -> bool:
    found = [load("swimmer")["results"]["stabilised"][name] for name in THREE]
    means = [row["final"]["mean"] for row in found]
    spread = min(row["final"]["std"] for row in found)
    return spread > max(means) - min(means) and all(
        row["max"]["mean"] > row["final"]["mean"] for row in found
    )


@says("results.md", "For PGT, clipped full ratios did clearly better in the exploration")
def full_ratios_of_pgt() -> bool:
    full = trial("pgt", baseline="regression", clip=5.0)
    return full > trial("pgt", baseline="regression", window=10, clip=5.0) + 1


@says("results.md", "For GAMPS and ML, all settings in the second round have full ratios")
def full_ratios_of_the_others() -> bool:
    return not any(
        "window" in load("exploration")["results"][recipe]["trials"][i]["changes"]
        for recipe in ("gamps", "ml")
        for i in load("exploration")["results"][recipe]["finalists"]
    )


@says("results.md", "Among the added parts, the state-value baseline contributes most")
def the_baseline_does_most() -> bool:
    others = ("window of 10 steps", "ratios not clipped", "a single model")
    return changed("no baseline") < min(map(changed, others))


@says("results.md", "from all gradient-aware to all alike, make no visible difference")
def weights_change_nothing() -> bool:
    found = load("ablation")["results"]
    names = ("weights all gradient-aware", "weights all alike (ML)")
    return all(abs(in_errors(found[name]["difference"])) < 2 for name in names)


@says(
    "results.md",
    "A fitted tail ruined one of the two runs,",
    "and holding the policy still below 20 effective episodes ends far lower",
)
def tails_and_rests_do_harm() -> bool:
    low, high = two_runs("fitted tail")
    return low < 0 and high > 20 and max(two_runs("rests below 20 trajectories")) < 15


@says("results.md", "The paper's model rate, in an ensemble, does no harm")
def the_model_rate_does_no_harm() -> bool:
    return changed("model rate 2e-4") > 0


@says("results.md", "On these two logs the model is not what holds the final return down")
def the_true_model_ends_no_higher() -> bool:
    chosen = load("ablation")["results"]["as chosen"]["final"]["mean"]
    return load("swimmer-truth")["final"]["mean"] < chosen
