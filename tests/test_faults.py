"""Seeded faults: each is put into a copy of the source, and some test must catch it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gamps

SOURCE = Path(gamps.__file__).parent
ROOT = Path(__file__).parent.parent

STAGES = "tests/test_exact.py::test_stages_are_unbiased_by_enumeration"
LEMMA = "tests/test_exact.py::test_identity"
BOUND = "tests/test_exact.py::test_printed_constant_is_broken_by_the_counterexample"
PARTS, FITTING = "tests/test_parts.py", "tests/test_fitting.py"
IMPORTANCE = "tests/test_importance.py"
IMAGINED = "tests/test_imagined.py"
ALL_ACTIONS = "tests/test_all_actions.py"
BLOCKS = f"{IMAGINED}::test_blocks_and_padding_change_nothing[blocks-4]"
IN_PARTS = "test_ten_iterations_in_parts_end_where_they_end_in_one_piece[parts0]"
STREAMED = f"tests/test_streaming.py::{IN_PARTS}"
LINEAR = f"{IMAGINED}::test_q_and_v_of_a_linear_system[blocks-2000]"
DAMAGED = "tests/test_datasets.py::test_damage_is_named"
RECTIFIED = "tests/test_battery.py::TestPart::test_draws_follow_the_density"

# name: (file, the line as it is, the line with the fault, the test that catches it)
FAULTS = {
    "discount dropped": (
        "search/importance.py", "log_rho + steps * jnp.log(discount)", "log_rho + 0 * jnp.log(discount)",
        IMPORTANCE,
    ),
    "ratio shifted by a step": (
        "search/importance.py",
        "jnp.cumsum(jnp.where(trajectories.mask, ratios, 0.0), axis=1)",
        "jnp.cumsum(jnp.where(trajectories.mask, ratios, 0.0), axis=1) - ratios",
        f"{STAGES}[2.0]",
    ),
    "behaviour density ignored": (
        "search/importance.py", "- trajectories.behaviour_log_prob", "- 0 * trajectories.rewards",
        f"{STAGES}[2.0]",
    ),
    "mask missing in the ratios": (
        "search/importance.py", "jnp.where(mask, log_weights - log_scale, -jnp.inf)",
        "log_weights - log_scale", f"{STAGES}[2.0]",
    ),
    "effective sample size without the square": (
        "search/importance.py", "squares = jnp.sum(weights**2)", "squares = jnp.sum(weights)", IMPORTANCE,
    ),
    "wrong norm": (
        "policies/types.py", "return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in leaves))",
        "return jnp.asarray(sum(jnp.sum(leaf**2) for leaf in leaves))", f"{STAGES}[2.0]",
    ),
    "score of forced rows kept": (
        "policies/boltzmann.py", "return jnp.where(forced >= 0, certain, free)", "return free",
        PARTS,
    ),
    "score norms not accumulated": (
        "search/weights.py", "jnp.cumsum(norms, axis=1)", "norms", f"{STAGES}[2.0]",
    ),
    "mask missing in the fit": (
        "search/fitting/closed_form.py", "used = jnp.where(trajectories.mask, weights, 0.0)\n        #",
        "used = weights\n        #", FITTING,
    ),
    "returns from the start, not to go": (
        "search/values/logged.py", "jnp.cumsum(rewards[:, ::-1], axis=1)[:, ::-1]",
        "jnp.cumsum(rewards, axis=1)", f"{STAGES}[2.0]",
    ),
    "episode ratio taken at the first step": (
        "search/values/logged.py", "whole_episode(ratios.log_rho, trajectories.mask)",
        "ratios.log_rho[:, 0]", f"{STAGES}[2.0]",
    ),
    "imagined episodes do not end": (
        "search/values/exact.py", "jnp.where(everywhere(task.terminal), 0.0, transitions)", "transitions",
        f"{STAGES}[2.0]",
    ),
    "state value not subtracted": (
        "search/values/baselines.py", "return ratios.discounted_rho * values.state_values",
        "return 0 * ratios.discounted_rho", PARTS,
    ),
    "baseline of another variance": (
        "search/values/baselines.py", "jnp.sum(rho**2 * squares, axis=0)",
        "jnp.sum(rho * squares, axis=0)", PARTS,
    ),
    "gradient not divided by N": (
        "search/gradients/logged.py", "jnp.sum(terms) / count", "jnp.sum(terms)",
        f"{STAGES}[2.0]",
    ),
    "η from visits, not from scores": (
        "exact/tabular.py", "nu.ravel() @ reachability", "occupancy(mdp, pi).ravel() @ reachability",
        f"{LEMMA}[lemma-1e-08]",
    ),
    "Theorem 1 with the printed constant": (
        "exact/bounds.py", "power = 2 if printed else 3", "power = 2", f"{BOUND}[2.0-0.9]",
    ),
    "imagined trajectories do not end": (
        "search/values/rollouts.py",
        "jnp.where(ends(states, actions, following), 0.0, discount * weight)", "discount * weight",
        BLOCKS,
    ),
    "imagined rewards not discounted": (
        "search/values/rollouts.py", "0.0, discount * weight)", "0.0, weight)", LINEAR,
    ),
    "values put back one step late": (
        "search/values/rollouts.py", "values[place.reshape(log.mask.shape)]",
        "values[place.reshape(log.mask.shape) + 1]", BLOCKS,
    ),
    "last block forgotten": (
        "search/values/rollouts.py", "-(-jnp.sum(mask) // starts)", "jnp.sum(mask) // starts", BLOCKS,
    ),
    "rollouts of one start share their noise": (
        "search/values/rollouts.py", "noise = normal(key, (*shape, starts, drawn), dtype)",
        "noise = jnp.zeros((*shape, starts, drawn), dtype) "
        "+ jax.random.normal(key, (*shape, starts, 1), dtype)", LINEAR,
    ),
    "V starts with the logged action": (
        "search/values/imagined.py", "actions if given else None", "actions", LINEAR,
    ),
    "noise by the place in a part": (
        "search/values/imagined.py", "-(before % (size // rollouts) * rollouts)", "0", STREAMED,
    ),
    "parts added on different scales": (
        "search/streaming/sums.py", "left * x + right * y", "x + y",
        "tests/test_streaming.py::test_ratios_beyond_any_float_add_up",
    ),
    "drawn pairs not corrected for": (
        "search/gradients/drawn.py", "/ jnp.where(norm > 0, norm, 1.0)", "/ jnp.mean(norm)",
        "tests/test_drawn.py::test_the_gradient_of_drawn_pairs_is_unbiased",
    ),
    "antithetic half not negated": (
        "search/values/rollouts.py", "jnp.concatenate([noise, -noise], axis=-1)",
        "jnp.concatenate([noise, noise], axis=-1)",
        f"{IMAGINED}::test_antithetic_noise_cancels_what_is_linear",
    ),
    "noise of one start laid over several": (
        "search/values/imagined.py", "repeated(z, distinct, shared_by)",
        "jnp.repeat(z, starts // distinct, axis=-1)",
        f"{IMAGINED}::test_who_shares_noise[all-False]",
    ),
    "an action's mirror image in its own baseline": (
        "search/values/baselines.py", "(total - q_values - mirrored) / (count - 2)",
        "(total - q_values) / (count - 1)",
        f"{ALL_ACTIONS}::test_all_action_gradient_is_that_of_the_logged_states",
    ),
    "a terminal step taken": (
        "search/gradients/all_actions.py", "return where(alive, moved, states)", "return moved",
        f"{ALL_ACTIONS}::test_rolled_states_are_where_the_model_leads",
    ),
    "tail not discounted": (
        "search/values/rollouts.py", "jnp.where(weight > 0, weight * rest, 0.0)",
        "jnp.where(weight > 0, rest, 0.0)",
        f"{IMAGINED}::test_fitted_q_and_the_tail_see_past_the_horizon",
    ),
    "fitted Q goes on past the end": (
        "search/values/fitted.py", "jnp.where(goes_on, self.features(following, following_action), 0.0)",
        "self.features(following, following_action)",
        f"{IMAGINED}::test_fitted_q_equals_the_exact_solve_in_a_table",
    ),
    "rectifier left out of the draw": (
        "models/gaussian.py", "observation - jnp.maximum(difference, 0.0)",
        "observation - difference", f"{RECTIFIED}[noise-model linear, rectified]",
    ),
    "mean deviation taken for the standard one": (
        "models/linear_gaussian.py", "UNBIASED * deviation", "deviation", FITTING,
    ),
    "a window one step too wide": (
        "search/importance.py", "((0, 0), (self.steps, 0))", "((0, 0), (self.steps + 1, 0))", IMPORTANCE,
    ),
    "weights left out of minibatches": (
        "search/fitting/descent.py", "jnp.where(weights > 0, weights * log_prob, 0.0)",
        "jnp.where(weights >= 0, log_prob, 0.0)",
        f"{FITTING}::test_minibatches_find_the_weighted_maximum",
    ),
    "regression without its weights": (
        "search/values/baselines.py", "features.T @ (flat(rho)[:, None] * features)",
        "features.T @ features", PARTS,
    ),
    "densities not compared on loading": (
        "datasets/reading.py", "        _check_densities(trajectories, behaviour)", "        pass",
        f"{DAMAGED}[one clipped action]",
    ),
    "alignment of infos not checked": (
        "datasets/reading.py", "if not np.isnan(log_prob[0]):", "if False:",
        f"{DAMAGED}[infos aligned with actions]",
    ),
    "density of the clipped action": (
        "policies/gaussian.py", "norm.logpdf(action,", "norm.logpdf(jnp.clip(action, -1, 1),",
        f"{RECTIFIED}[noise-policy affine]",
    ),
}  # fmt: skip


def run(test: str, source: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(source.parent)}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", test],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copytree(SOURCE, tmp_path / "gamps", ignore=shutil.ignore_patterns("*.pyc")))


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_caught(name, copy):
    file, right, wrong, test = FAULTS[name]
    text = (copy / file).read_text(encoding="utf-8")
    assert text.count(right) == 1, f"{file} no longer says {right!r}"
    (copy / file).write_text(text.replace(right, wrong), encoding="utf-8")
    done = run(test, copy)
    assert done.returncode == 1, f"not caught by {test}:\n{done.stdout}"
    assert "FAILED" in done.stdout


@pytest.mark.parametrize("test", sorted({fault[-1] for fault in FAULTS.values()}))
def test_the_copy_without_a_fault_passes(test, copy):
    done = run(test, copy)
    assert done.returncode == 0, done.stdout
