"""Mutants of moves without gradients, and of the surrogate's."""

from tests.mutants.mutant import Rows

MUTANTS: Rows = {
    "kernels/joint.py": [
        (
            "weight not renewed after a walk",
            "chain.log_weight[0] = log_weight(",
            "_ = log_weight(",
            "walk",
        ),
        (
            "density of the proposal inverted",
            "total += 0.5 * v[j] * v[j]",
            "total -= 0.5 * v[j] * v[j]",
            "independent",
        ),
        (
            "density of the proposal left out",
            "total += 0.5 * v[j] * v[j]",
            "total += 0.0 * v[j] * v[j]",
            "independent",
        ),
        (
            "weight of the old state kept on acceptance",
            "chain.log_weight[0] = weight\n        accept_z",
            "accept_z",
            "independent",
        ),
        (
            "brightness of the old state kept on acceptance",
            "accept_z(tables, chain.log_factor_new, count, bright)",
            "pass",
            "independent",
        ),
        (
            "joint proposals always accepted",
            "if -rng.standard_exponential() < log_ratio:",
            "if True:",
            "independent",
        ),
        (
            "ratio of weights inverted",
            "log_ratio = weight - chain.log_weight[0]",
            "log_ratio = chain.log_weight[0] - weight",
            "independent",
        ),
        ("brightness left out of the weight", "return total + of_z", "return total", "independent"),
    ],
    "kernels/metropolis.py": [
        (
            "dark rows of an earlier z",
            "    take_dark(posterior.rows, bright, chain)\n",
            "    if not chain.dark.any():\n        take_dark(posterior.rows, bright, chain)\n",
            "parts",
        ),
        (
            "density of pCN proposals inverted",
            "log_ratio += 0.5 * (v_new[j] * v_new[j] - v[j] * v[j])",
            "log_ratio -= 0.5 * (v_new[j] * v_new[j] - v[j] * v[j])",
            "pcn",
        ),
        (
            "density of pCN proposals left out",
            "log_ratio += 0.5 * (v_new[j] * v_new[j] - v[j] * v[j])",
            "pass",
            "pcn",
        ),
        (
            "pCN that shrinks too much",
            "rho = np.sqrt(1.0 - beta * beta)",
            "rho = 1.0 - beta",
            "tests/kernels/test_proposals.py",
        ),
        (
            "random walks always accepted",
            "accept = conditional_update(rng, log_correction,",
            "accept = conditional_update(rng, np.inf,",
            "implicit-by-row",
        ),
        (
            "a walk that drifts",
            "v_new[j] = v[j] + scale * rng.standard_normal()",
            "v_new[j] = 0.9 * v[j] + scale * rng.standard_normal()",
            "with-replacement",
        ),
    ],
    "kernels/shifts.py": [
        (
            "moves along a shift whose width depends on the state",
            "add_shift(shifts, k, 1.0, geometry.centre, theta)",
            "add_shift(shifts, k, 1.0, chain.theta, theta)",
            "rescaling",
        ),
        (
            "directions of shifts as if all scales were one",
            "weight *= np.exp(-at[shifts.scale[t]])",
            "weight *= 1.0",
            "rescaling",
        ),
        (
            "directions of shifts of the centre",
            "add_shift(shifts, k, change, chain.theta, theta)",
            "add_shift(shifts, k, change, geometry.centre, theta)",
            "rescaling",
        ),
    ],
    "kernels/rescaling.py": [
        (
            "Jacobian left out of a change of scale",
            "return log_jacobian",
            "return 0.0",
            "rescaling",
        ),
        (
            "effects stretched the other way",
            "np.exp(scales.power[i] * change)",
            "np.exp(-scales.power[i] * change)",
            "rescaling",
        ),
        (
            "effects that a scale multiplies stretched with it",
            "np.exp(scales.power[i] * change)",
            "np.exp(change)",
            "rescaling",
        ),
        (
            "Jacobian of effects that are not centred as of those that are",
            "log_jacobian += scales.power[i] * change",
            "log_jacobian += change",
            "rescaling",
        ),
        (
            "a change of scale that depends on the scale",
            "theta[scales.scale[k]] += change",
            "theta[scales.scale[k]] += 0.9 * change",
            "rescaling",
        ),
        (
            "effects stretched around zero in any case",
            "location = location_of(scales.locations, i, theta)",
            "location = 0.0",
            "rescaling",
        ),
        (
            "effects around an element of theta whatever its weight",
            "total += locations.weight[t] * theta[locations.place[t]]",
            "total += theta[locations.place[t]]",
            "tests/kernels/test_rescaling.py",
        ),
        (
            "effects around what belongs to the first of them",
            "for t in range(locations.first[i], locations.first[i + 1]):",
            "for t in range(locations.first[0], locations.first[1]):",
            "rescaling",
        ),
        (
            "changes of scale always accepted",
            "move(rng, log_jacobian, *arguments)",
            "move(rng, np.inf, *arguments)",
            "rescaling",
        ),
        (
            "the first scale's effects for all",
            "for i in range(scales.first[k], scales.first[k + 1]):",
            "for i in range(scales.first[0], scales.first[1]):",
            "rescaling",
        ),
    ],
    "kernels/slice.py": [
        (
            "slice at twice the depth",
            "level = -rng.standard_exponential()",
            "level = -2.0 * rng.standard_exponential()",
            "slice",
        ),
        ("interval shrunk on the wrong side", "if t < 0.0:", "if t > 0.0:", "slice"),
        (
            "interval never extended",
            "low = -width * rng.random()\n    high = low + width",
            "low = -0.1 * width * rng.random()\n    high = low + width",
            "slice-random",
        ),
        (
            "bright rows left out of the slice",
            "return log_ratio_at(posterior, log_density, chain, bright, scratch), log_density",
            "return log_density - chain.log_density[0], log_density",
            "slice-random",
        ),
        (
            "extensions shared out so that the way back may differ",
            "right = MAX_EXTENSIONS - 1 - left",
            "right = MAX_EXTENSIONS - 1",
            "slice-few-extensions",
        ),
        (
            "directions that are not of length one",
            "slices.direction[j] /= np.sqrt(norm)",
            "slices.direction[j] /= norm",
            "slice-random",
        ),
        (
            "widths learnt after tuning",
            "slices.width[i] += slices.gain[0] * (length - slices.width[i])",
            "slices.width[i] += max(slices.gain[0], 0.01) * (length - slices.width[i])",
            "slice",
        ),
        (
            "the same coordinate each time",
            "slices.direction[i] = 1.0",
            "slices.direction[0] = 1.0",
            "slice",
        ),
    ],
    "kernels/surrogate.py": [
        (
            "weight of the old state stale after a trajectory",
            "        chain.log_weight[0] = weight\n",
            "        pass\n",
            "surrogate",
        ),
        (
            "weight of the old state stale after a walk",
            "chain.log_weight[0] = log_weight_of_z(posterior.rows",
            "_ = log_weight_of_z(posterior.rows",
            "surrogate-walk",
        ),
        (
            "density of the old state stale in a proposal of two trajectories",
            "accept_theta(walker, dynamics.log_density_new[0])",
            "accept_theta(walker, walker.log_density[0])",
            "surrogate-twice",
        ),
        (
            "trajectories always accepted",
            "if -rng.standard_exponential() < log_ratio:\n        accept_theta(walker",
            "if True:\n        accept_theta(walker",
            "surrogate",
        ),
        (
            "density without rows stale after a move of a scale",
            "proposals.without_rows[0] = without_rows",
            "pass",
            "rescaling-surrogate",
        ),
        (
            "density without rows of the last draw",
            "proposals.without_rows[0] = density_and_gradient_at(posterior, dynamics, chain)",
            "density_and_gradient_at(posterior, dynamics, chain)",
            "rescaling-surrogate",
        ),
        (
            "exact rows left out of the surrogate",
            "log_density += row_force(",
            "log_density += 0.0 * row_force(",
            "surrogate",
        ),
        (
            "exact rows counted twice",
            "log_density += row_force(",
            "log_density += 2.0 * row_force(",
            "surrogate-walk",
        ),
        (
            "remainders taken to stay where coefficients change",
            "if is_same(chain.w_new, chain.w):",
            "if True:",
            "rescaling-surrogate",
        ),
        (
            "remainders left out where coefficients stay",
            "chain.log_density[0] + log_density - without_rows",
            "log_density",
            "rescaling-surrogate",
        ),
        (
            "remainders left out where coefficients change",
            "log_q = add_exact_rows(log_density,",
            "log_q = 0.0 * add_exact_rows(log_density,",
            "rescaling-surrogate",
        ),
    ],
}
