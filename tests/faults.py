"""Seeded faults, and the tests of the standing tier that cover the file of each."""

# A fault is caught by the first of these that fails; those most likely to are named first.
COVERED_BY = {
    "_utils/atomic_io.py": ["test_checkpoints", "test_atomic_io"],
    "_utils/compile_cache.py": ["test_compile_cache"],
    "cluster/": ["test_launch"],
    "datasets/reading.py": ["test_rounds", "test_several", "test_datasets"],
    "datasets/tables.py": ["test_tables"],
    "datasets/": ["test_datasets", "test_shards"],
    "evaluation/balance.py": ["test_balance"],
    "evaluation/duel.py": ["test_trials", "test_rounds"],
    "evaluation/ratio_sums.py": ["test_several", "test_evaluation"],
    "evaluation/tabular_q.py": ["test_finite"],
    "evaluation/": ["test_evaluation", "test_training"],
    "exact/": ["test_exact", "test_bounds"],
    "models/outcomes.py": ["test_outcomes"],
    "models/": ["test_battery", "test_fitting"],
    "policies/boltzmann.py": ["test_parts", "test_battery"],
    "policies/gaussian.py": ["test_battery", "test_parts"],
    "policies/types.py": ["test_exact", "test_parts", "test_battery"],
    "runs/checkpoints.py": ["test_checkpoints", "test_training"],
    "runs/log_truth.py": ["test_log_truth"],
    "runs/results.py": ["test_launch"],
    "runs/rounds.py": ["test_rounds"],
    "runs/trials.py": ["test_trials"],
    "runs/": ["test_training"],
    "search/fitting/": ["test_fitting", "test_battery"],
    "search/gradients/all_actions.py": ["test_all_actions"],
    "search/gradients/drawn.py": ["test_drawn"],
    "search/gradients/logged.py": ["test_exact", "test_parts"],
    "search/importance.py": ["test_importance", "test_exact"],
    "learner/finite.py": ["test_finite"],
    "learner/trials.py": ["test_trials"],
    "learner/": ["test_learner"],
    "search/logged_climb.py": ["test_logged_climb"],
    "search/streaming/": ["test_streaming"],
    "search/values/advantages.py": ["test_logged_climb"],
    "search/values/baselines.py": ["test_parts", "test_all_actions"],
    "search/values/exact.py": ["test_exact", "test_parts"],
    "search/values/fitted.py": ["test_imagined", "test_fitted"],
    "search/values/imagined.py": ["test_imagined", "test_streaming"],
    "search/values/logged.py": ["test_exact", "test_parts"],
    "search/values/rollouts.py": ["test_imagined"],
    "search/weights.py": ["test_exact", "test_parts"],
    "trajectories.py": ["test_trajectories", "test_training"],
}

# name: (file, the text as it is, the text with the fault)
FAULTS = {
    "discount dropped": (
        "search/importance.py",
        "log_rho + steps * jnp.log(discount)",
        "log_rho + 0 * jnp.log(discount)",
    ),
    "ratio shifted by a step": (
        "search/importance.py",
        "jnp.cumsum(jnp.where(trajectories.mask, ratios, 0.0), axis=1)",
        "jnp.cumsum(jnp.where(trajectories.mask, ratios, 0.0), axis=1) - ratios",
    ),
    "behaviour density ignored": (
        "search/importance.py",
        "- trajectories.behaviour_log_prob",
        "- 0 * trajectories.rewards",
    ),
    "mask missing in the ratios": (
        "search/importance.py",
        "jnp.where(mask, log_weights - log_scale, -jnp.inf)",
        "log_weights - log_scale",
    ),
    "effective sample size without the square": (
        "search/importance.py",
        "squares = jnp.sum(weights**2)",
        "squares = jnp.sum(weights)",
    ),
    "wrong norm": (
        "policies/types.py",
        "return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in leaves))",
        "return jnp.asarray(sum(jnp.sum(leaf**2) for leaf in leaves))",
    ),
    "score of forced rows kept": (
        "policies/boltzmann.py",
        "return jnp.where(forced >= 0, certain, free)",
        "return free",
    ),
    "score norms not accumulated": (
        "search/weights.py",
        "jnp.cumsum(norms, axis=1)",
        "norms",
    ),
    "mask missing in the fit": (
        "search/fitting/closed_form.py",
        "used = jnp.where(trajectories.mask, weights, 0.0)\n        #",
        "used = weights\n        #",
    ),
    "returns from the start, not to go": (
        "search/values/logged.py",
        "jnp.cumsum(rewards[:, ::-1], axis=1)[:, ::-1]",
        "jnp.cumsum(rewards, axis=1)",
    ),
    "episode ratio taken at the first step": (
        "search/values/logged.py",
        "whole_episode(ratios.log_rho, trajectories.mask)",
        "ratios.log_rho[:, 0]",
    ),
    "imagined episodes do not end": (
        "search/values/exact.py",
        "jnp.where(everywhere(task.terminal), 0.0, transitions)",
        "transitions",
    ),
    "state value not subtracted": (
        "search/values/baselines.py",
        "return ratios.discounted_rho * values.state_values",
        "return 0 * ratios.discounted_rho",
    ),
    "baseline of another variance": (
        "search/values/baselines.py",
        "jnp.sum(rho**2 * squares, axis=0)",
        "jnp.sum(rho * squares, axis=0)",
    ),
    "gradient not divided by N": (
        "search/gradients/logged.py",
        "jnp.sum(terms) / count",
        "jnp.sum(terms)",
    ),
    "η from visits, not from scores": (
        "exact/tabular.py",
        "nu.ravel() @ reachability",
        "occupancy(mdp, pi).ravel() @ reachability",
    ),
    "Theorem 1 with the printed constant": (
        "exact/bounds.py",
        "power = 2 if printed else 3",
        "power = 2",
    ),
    "imagined trajectories do not end": (
        "search/values/rollouts.py",
        "jnp.where(ends(states, actions, free), 0.0, discount * weight)",
        "discount * weight",
    ),
    "an end beyond the log never imagined": (
        "search/values/rollouts.py",
        "ends(states, actions, free)",
        "ends(states, actions, following)",
    ),
    "nothing taken for what follows the border": (
        "search/values/rollouts.py",
        "total + jnp.where(weight > 0, lost, 0.0)",
        "total",
    ),
    "V of what follows the last step": (
        "search/values/advantages.py",
        "following = jnp.pad(values, ((0, 0), (0, 1)))[:, 1:]",
        "following = jnp.concatenate([values[:, 1:], values[:, -1:]], axis=1)",
    ),
    "a trace that is not discounted": (
        "search/values/advantages.py",
        "discount * trace * jnp.minimum(ratios, 1.0)",
        "trace * jnp.minimum(ratios, 1.0)",
    ),
    "a trace of another policy that is not cut": (
        "search/values/advantages.py",
        "jnp.minimum(ratios, LARGEST) * surprises",
        "ratios * surprises",
    ),
    "a gain by episodes that were learned from": (
        "search/logged_climb.py",
        "[~np.asarray(learned)]",
        "[np.asarray(learned)]",
    ),
    "a gain of the log believed whole": (
        "learner/learner.py",
        "BELIEVED = 0.5",
        "BELIEVED = 1.0",
    ),
    "imagined rewards not discounted": (
        "search/values/rollouts.py",
        "0.0, discount * weight)",
        "0.0, weight)",
    ),
    "values put back one step late": (
        "search/values/rollouts.py",
        "values[place.reshape(log.mask.shape)]",
        "values[place.reshape(log.mask.shape) + 1]",
    ),
    "last block forgotten": (
        "search/values/rollouts.py",
        "-(-jnp.sum(mask) // starts)",
        "jnp.sum(mask) // starts",
    ),
    "rollouts of one start share their noise": (
        "search/values/rollouts.py",
        "noise = normal(key, (*shape, starts, drawn), dtype)",
        "noise = jnp.zeros((*shape, starts, drawn), dtype) +"
        " jax.random.normal(key, (*shape, starts, 1), dtype)",
    ),
    "V starts with the logged action": (
        "search/values/imagined.py",
        "actions if given else None",
        "actions",
    ),
    "noise by the place in a part": (
        "search/values/imagined.py",
        "-(before % (size // rollouts) * rollouts)",
        "0",
    ),
    "parts added on different scales": (
        "search/streaming/sums.py",
        "left * x + right * y",
        "x + y",
    ),
    "drawn pairs not corrected for": (
        "search/gradients/drawn.py",
        "/ jnp.where(norm > 0, norm, 1.0)",
        "/ jnp.mean(norm)",
    ),
    "antithetic half not negated": (
        "search/values/rollouts.py",
        "jnp.concatenate([noise, -noise], axis=-1)",
        "jnp.concatenate([noise, noise], axis=-1)",
    ),
    "noise of one start laid over several": (
        "search/values/imagined.py",
        "repeated(z, distinct, shared_by)",
        "jnp.repeat(z, starts // distinct, axis=-1)",
    ),
    "an action's mirror image in its own baseline": (
        "search/values/baselines.py",
        "(total - q_values - mirrored) / (count - 2)",
        "(total - q_values) / (count - 1)",
    ),
    "every choice counted alike": (
        "search/gradients/all_actions.py",
        "counted = jnp.ones(shape, dtype) if policy.choices is None else jnp.exp(log_prob)",
        "counted = jnp.ones(shape, dtype)",
    ),
    "what was never tried is worth the best": (
        "learner/finite.py",
        "returns_to_go(log, self.discount).min()",
        "returns_to_go(log, self.discount).max()",
    ),
    "a table that goes on past the end": (
        "evaluation/tabular_q.py",
        "goes_on * v[following]",
        "v[following]",
    ),
    "an end taken for none": (
        "models/outcomes.py",
        "jnp.asarray(balance > 0)",
        "jnp.asarray(balance < 0)",
    ),
    "a timeout taken for an end": (
        "datasets/tables.py",
        "ended = ended and not cut",
        "ended = ended or cut",
    ),
    "groups torn apart": (
        "datasets/reading.py",
        "np.isin(groups, split_rows(len(kinds), held_out, seed)[0])",
        "np.isin(np.arange(n), split_rows(n, held_out, seed)[0])",
    ),
    "a group counted as one episode": (
        "evaluation/ratio_sums.py",
        "totals * (len(kinds) / len(numbers))",
        "totals / len(kinds)",
    ),
    "a terminal step taken": (
        "search/gradients/all_actions.py",
        "return where(alive, moved, states)",
        "return moved",
    ),
    "tail not discounted": (
        "search/values/rollouts.py",
        "jnp.where(weight > 0, weight * rest, 0.0)",
        "jnp.where(weight > 0, rest, 0.0)",
    ),
    "fitted Q goes on past the end": (
        "search/values/fitted.py",
        "jnp.where(goes_on, self.features(following, following_action), 0.0)",
        "self.features(following, following_action)",
    ),
    "rectifier left out of the draw": (
        "models/gaussian.py",
        "observation - jnp.maximum(difference, 0.0)",
        "observation - difference",
    ),
    "mean deviation taken for the standard one": (
        "models/linear_gaussian.py",
        "UNBIASED * deviation",
        "deviation",
    ),
    "a window one step too wide": (
        "search/importance.py",
        "((0, 0), (self.steps, 0))",
        "((0, 0), (self.steps + 1, 0))",
    ),
    "weights left out of minibatches": (
        "search/fitting/descent.py",
        "jnp.where(weights > 0, weights * log_prob, 0.0)",
        "jnp.where(weights >= 0, log_prob, 0.0)",
    ),
    "regression without its weights": (
        "search/values/baselines.py",
        "features.T @ (flat(rho)[:, None] * features)",
        "features.T @ features",
    ),
    "densities not compared on loading": (
        "datasets/reading.py",
        "            check_densities(of_newest(data), behaviour)",
        "            pass",
    ),
    "alignment of infos not checked": (
        "datasets/reading.py",
        "if not np.isnan(log_prob[0]):",
        "if False:",
    ),
    "density of the clipped action": (
        "policies/gaussian.py",
        "norm.logpdf(action,",
        "norm.logpdf(jnp.clip(action, -1, 1),",
    ),
    "policies chosen by what they learned from": (
        "runs/build.py",
        "iterations=spec.iterations, held_out=held_out",
        "iterations=spec.iterations, held_out=learned",
    ),
    "choosing episodes learned from too": (
        "runs/build.py",
        "learned, held_out = split(learned, min(",
        "_, held_out = split(learned, min(",
    ),
    "policies chosen by the verdict's episodes": (
        "runs/build.py",
        "learned, held_out = split(learned, min(",
        "learned, held_out = split(data.trajectories, min(",
    ),
    "parts of a split overlap": (
        "trajectories.py",
        "np.sort(order[count:]), np.sort(order[:count])",
        "np.sort(order[count - 1 :]), np.sort(order[:count])",
    ),
    "policies on disk chosen by what they learned from": (
        "runs/build.py",
        "judged = held_out.sample(SAMPLE)",
        "judged = learned.sample(SAMPLE)",
    ),
    "Q fitted to the held-out episodes": (
        "runs/evaluate_run.py",
        "run.learned,\n        run.held_out,\n        run.task",
        "run.held_out,\n        run.held_out,\n        run.task",
    ),
    "tail index without a say in the support": (
        "evaluation/support.py",
        " and not k > most:",
        ":",
    ),
    "episodes needed without the square": (
        "evaluation/verdict.py",
        "((gain.estimate - gain.low) / gain.estimate) ** 2",
        "((gain.estimate - gain.low) / gain.estimate)",
    ),
    "degrees of freedom not less one": (
        "evaluation/intervals.py",
        "stdtrit(n - 1, confidence)",
        "stdtrit(n, confidence)",
    ),
    "normal quantile for Student's": (
        "evaluation/intervals.py",
        "stdtrit(n - 1, confidence)",
        "ndtri(confidence)",
    ),
    "bias corrected to the wrong side": (
        "evaluation/intervals.py",
        "bias = ndtri(np.clip(",
        "bias = -ndtri(np.clip(",
    ),
    "tail index without its prior": (
        "search/importance.py",
        "estimate = (index(best) * size + 0.5 * 10) / (size + 10)",
        "estimate = index(best)",
    ),
    "a fifth of all weights is the tail": (
        "search/importance.py",
        "int(min(n / 5, 3 * n**0.5))",
        "int(n / 5)",
    ),
    "what cannot happen is part of the tail": (
        "search/importance.py",
        "xp.where(nothing, xp.where(least < xp.inf, least, 0.0), log_weights)",
        "xp.maximum(log_weights, -700.0)",
    ),
    "bootstrap by steps": (
        "search/fitting/members.py",
        "(len(weights), 1), weights.dtype",
        "weights.shape, weights.dtype",
    ),
    "foreign folder of programs": (
        "_utils/compile_cache.py",
        "if writable or foreign:",
        "if writable:",
    ),
    "bytes not synced": (
        "_utils/atomic_io.py",
        "        os.fsync(file.fileno())\n",
        "",
    ),
    "entries not synced": (
        "_utils/atomic_io.py",
        "        os.fsync(handle)\n",
        "        pass\n",
    ),
    "shards count alike however many trajectories they hold": (
        "search/streaming/shard.py",
        "lambda g: g * count, gradient.ascent",
        "lambda g: g, gradient.ascent",
    ),
    "some shards taken for the whole log": (
        "search/streaming/loop.py",
        "count = shards.n_trajectories * some / len(shards)",
        "count = shards.n_trajectories",
    ),
    "every shard begins at step zero": (
        "search/streaming/loop.py",
        "before = before + jnp.sum(shard.mask)",
        "before = before + 0",
    ),
    "the newest checkpoints are dropped": (
        "runs/checkpoints.py",
        "earlier[:-keep]",
        "earlier[keep:]",
    ),
    "the oldest checkpoint is taken up": (
        "runs/checkpoints.py",
        "for path in reversed(numbered(folder)):",
        "for path in numbered(folder):",
    ),
    "a checkpoint of other settings is taken up": (
        "runs/loop.py",
        'if found.plain["settings"] != runs.digest(out):',
        "if False:",
    ),
    "iterations without a checkpoint are reported twice": (
        "runs/loop.py",
        "                runs.cut(out, done)",
        "                pass",
    ),
    "damage to a file is not seen": (
        "_utils/atomic_io.py",
        "if _line(name, content) not in ",
        "if False and _line(name, content) not in ",
    ),
    "a damaged result is kept": (
        "runs/results.py",
        "if _sealed(content) != content:",
        "if False:",
    ),
    "a failure that follows from a loss counts first": (
        "cluster/attempt.py",
        "for kind in (Lost, Failure):",
        "for kind in (Failure, Lost):",
    ),
    "the same failure looks new by its port": (
        "cluster/member.py",
        're.sub(r"[0-9a-fx]*\\d[0-9a-fx]*", "", f.message)',
        "f.message",
    ),
    "every round spends all of the error": (
        "runs/rounds.py",
        "return error / (number * (number + 1) if rounds is None else rounds)",
        "return error",
    ),
    "harm is measured the wrong way round": (
        "evaluation/duel.py",
        "return float(new.mean() - old.mean()), float(np.sqrt(parts.sum())), freedom",
        "return float(old.mean() - new.mean()), float(np.sqrt(parts.sum())), freedom",
    ),
    "a log of another policy is taken for the deployed one's": (
        "runs/rounds.py",
        "if not made(policy, data.trajectories):",
        "if False:",
    ),
    "ties speak for the challenger": (
        "evaluation/duel.py",
        "won = int((new[:, None] > old[None]).sum())",
        "won = int((new[:, None] >= old[None]).sum())",
    ),
    "a challenger takes over by its mean alone": (
        "runs/trials.py",
        "took_over = shown_better(np.asarray(new), np.asarray(old), now.error / LOOKS)",
        "took_over = bool(np.mean(new) > np.mean(old) - 100)",
    ),
    "elites are the worst": (
        "learner/trials.py",
        'best = tried[np.argsort(-earned, kind="stable")[:count]]',
        'best = tried[np.argsort(earned, kind="stable")[:count]]',
    ),
    "episodes judge twice": (
        "datasets/reading.py",
        "labels=Labels(*names, name, count),",
        "labels=Labels(*names, name, 0),",
    ),
    "a mixture of loggers without their shares": (
        "evaluation/balance.py",
        "jnp.cumsum(each, axis=-1) + jnp.asarray(shares, each.dtype)[:, None, None]",
        "jnp.cumsum(each, axis=-1) - jnp.log(len(loggers))",
    ),
    "false densities are let alone": (
        "runs/log_truth.py",
        "won.append(float((density - logged[seen]).sum()))",
        "won.append(float((logged[seen] - density).sum()))",
    ),
    "pieces of an episode that overlap": (
        "trajectories.py",
        "parts.append(first_steps(_moved(later, start, start), steps))",
        "parts.append(first_steps(later, steps))",
    ),
    "one attempt too many": (
        "cluster/jobs.py",
        "if lost >= TRIES:",
        "if lost > TRIES:",
    ),
    "two tasks of a sweep share a name": (
        "cluster/sweeps.py",
        "names.count(name) > 1",
        "names.count(name) > 2",
    ),
}
