"""Kernels leave the augmented law invariant, by enumeration or as textbooks do; mutants do not."""

import compileall
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import pymc_flymc

HERE = Path(__file__).parent
PACKAGE = Path(pymc_flymc.__file__).parent

SCHEMES = [
    "implicit-by-row",
    "implicit-single-q",
    "with-replacement",
    "without-replacement",
    "full-sweep",
    "cycle",
    "two-likelihoods",
    "two-likelihoods-cycle",
]

# name: file, line as it is, line of the mutant, scheme under which it shows
MUTANTS = {
    "darkening accepted with the inverse ratio": (
        "kernels/sweeps.py",
        "np.log(plan.q[plan.level[n]]) - log_odds",
        "log_odds - np.log(plan.q[plan.level[n]])",
        "implicit-single-q",
    ),
    "brightening accepted with the inverse ratio": (
        "kernels/sweeps.py",
        "log_odds - np.log(plan.q[plan.level[n]])",
        "np.log(plan.q[plan.level[n]]) - log_odds",
        "implicit-single-q",
    ),
    "q left out of brightening": (
        "kernels/sweeps.py",
        "log_odds - np.log(plan.q[plan.level[n]])",
        "log_odds",
        "implicit-by-row",
    ),
    "rows that just brightened may darken again": (
        "kernels/sweeps.py",
        "for i in range(n_bright - 1, -1, -1)",
        "for i in range(bright.count[0] - 1, -1, -1)",
        "implicit-single-q",
    ),
    "bright rows proposed to brighten": (
        "kernels/sweeps.py",
        "if not is_bright(bright, n):\n                plan.candidates",
        "if True:\n                plan.candidates",
        "implicit-single-q",
    ),
    "Gibbs update with odds inverted": (
        "kernels/sweeps.py",
        "1.0 / (1.0 + np.exp(-log_odds))",
        "1.0 / (1.0 + np.exp(log_odds))",
        "cycle",
    ),
    "Gibbs update of dark rows only": (
        "kernels/sweeps.py",
        "darken(bright, bright.slot[n] - 1)\n        # P(z_n",
        "continue\n        # P(z_n",
        "with-replacement",
    ),
    "cached odds kept on acceptance": (
        "kernels/posterior.py",
        "bright.log_factor[i] = chain.log_factor_new[i]",
        "pass",
        "implicit-single-q",
    ),
    "cached density kept on acceptance": (
        "kernels/posterior.py",
        "copy(chain.w_new, chain.w)\n    chain.log_density[0] = log_density",
        "copy(chain.w_new, chain.w)",
        "implicit-single-q",
    ),
    "rate of the Poisson draws halved": (
        "kernels/fresh_brightness.py",
        "rng.random() < -np.expm1(-rate_of(rows, w, n))",
        "rng.random() < -np.expm1(-0.5 * rate_of(rows, w, n))",
        "independent",
    ),
    "probability of having been drawn left out": (
        "kernels/fresh_brightness.py",
        "- np.log(-np.expm1(-rate_of(rows, w, index[i])))",
        "",
        "independent",
    ),
    "rates of the dark rows left out of a walk given z": (
        "kernels/posterior.py",
        "log_ratio += dark_rate(chain.dark, chain.w) - dark_rate(chain.dark, chain.w_new)",
        "pass",
        "walk",
    ),
    "dark rows of an earlier z": (
        "kernels/metropolis.py",
        "    take_dark(posterior.rows, bright, chain)\n",
        "    if not chain.dark.any():\n        take_dark(posterior.rows, bright, chain)\n",
        "parts",
    ),
    "bright rows left among the dark": (
        "kernels/dark_rates.py",
        "for k in range(bright.count[0]):\n        i = bright.index[k]",
        "for k in range(1, bright.count[0]):\n        i = bright.index[k]",
        "parts",
    ),
    "rates left out of the odds of darkening": (
        "kernels/sweeps.py",
        "log_odds = bright.log_factor[i] + rate_of(rows, w, n)",
        "log_odds = bright.log_factor[i]",
        "parts",
    ),
    "rates left out of the odds of brightening": (
        "kernels/sweeps.py",
        "log_odds = plan.log_factor[i] + rate_of(rows, w, n)\n        # Dark",
        "log_odds = plan.log_factor[i]\n        # Dark",
        "parts",
    ),
    "rates beyond the limit left out": (
        "kernels/dark_rates.py",
        "return near + _times(rows.constants[i, ROW.beyond], shared[POWERS.beyond])",
        "return near",
        "independent",
    ),
    "constants of the two powers swapped": (
        "kernels/layout.py",
        "near: int = 0\n    beyond: int = 1\n    outcome: int = 2\n    anchor: int = 3\n\n",
        "near: int = 1\n    beyond: int = 0\n    outcome: int = 2\n    anchor: int = 3\n\n",
        "independent",
    ),
    "nuisance parameters taken for what rows share": (
        "kernels/rows.py",
        "* width(rows) + rows.n_nuisances :]",
        "* width(rows) :]",
        "surrogate-walk",
    ),
    "weight not renewed after a walk": (
        "kernels/joint.py",
        "chain.log_weight[0] = log_weight(",
        "_ = log_weight(",
        "walk",
    ),
    "Jacobian left out of a change of scale": (
        "kernels/rescaling.py",
        "return (last - first) * change",
        "return 0.0",
        "rescaling",
    ),
    "effects stretched the other way": (
        "kernels/rescaling.py",
        "(theta[j] - centre) * np.exp(change)",
        "(theta[j] - centre) * np.exp(-change)",
        "rescaling",
    ),
    "a change of scale that depends on the scale": (
        "kernels/rescaling.py",
        "theta[scales.scale[k]] += change",
        "theta[scales.scale[k]] += 0.9 * change",
        "rescaling",
    ),
    "effects stretched around zero in any case": (
        "kernels/rescaling.py",
        "centre = theta[scales.centre[i]] if scales.centre[i] != NO_CENTRE else 0.0",
        "centre = 0.0",
        "rescaling",
    ),
    "parameters in whitened coordinates without the centre": (
        "kernels/geometry.py",
        "diagonal[i] = theta[geometry.diagonal[i]] - geometry.centre[geometry.diagonal[i]]",
        "diagonal[i] = theta[geometry.diagonal[i]]",
        "rescaling",
    ),
    "exact rows left out of the surrogate": (
        "kernels/surrogate.py",
        "log_density += row_force(",
        "log_density += 0.0 * row_force(",
        "surrogate",
    ),
    "exact rows counted twice": (
        "kernels/surrogate.py",
        "log_density += row_force(",
        "log_density += 2.0 * row_force(",
        "surrogate-walk",
    ),
    "weight of the old state stale after a trajectory": (
        "kernels/surrogate.py",
        "        chain.log_weight[0] = weight\n",
        "        pass\n",
        "surrogate",
    ),
    "weight of the old state stale after a walk": (
        "kernels/surrogate.py",
        "chain.log_weight[0] = log_weight_of_z(posterior.rows",
        "_ = log_weight_of_z(posterior.rows",
        "surrogate-walk",
    ),
    "density of the old state stale in a proposal of two trajectories": (
        "kernels/surrogate.py",
        "accept_theta(walker, dynamics.log_density_new[0])",
        "accept_theta(walker, walker.log_density[0])",
        "surrogate-twice",
    ),
    "trajectories always accepted": (
        "kernels/surrogate.py",
        "if -rng.standard_exponential() < log_ratio:\n        accept_theta(walker",
        "if True:\n        accept_theta(walker",
        "surrogate",
    ),
    "remainder of the bounds left out of a walk": (
        "kernels/posterior.py",
        "log_ratio += dark_rate(chain.dark, chain.w) - dark_rate(chain.dark, chain.w_new)",
        "pass",
        "surrogate-walk",
    ),
    "bright rows left out of a walk": (
        "kernels/posterior.py",
        "log_ratio += chain.log_factor_new[i] - bright.log_factor[i]",
        "pass",
        "surrogate-walk",
    ),
    "bright rows left out of the acceptance": (
        "kernels/posterior.py",
        "log_ratio += chain.log_factor_new[i] - bright.log_factor[i]",
        "pass",
        "with-replacement",
    ),
    "half a momentum update left out": (
        "kernels/trajectory.py",
        "momentum[j] += kick(",
        "momentum[j] += 0.0 * kick(",
        "hamiltonian",
    ),
    "normal law followed, and not taken off the force": (
        "kernels/trajectory.py",
        "force[j] + pull * chain.v_new[j]",
        "force[j]",
        "hamiltonian",
    ),
    "a limit on the force in the second half of a step alone": (
        "kernels/trajectory.py",
        "momentum[j] + kick(step, force[j] + pull * x, largest)",
        "momentum[j] + 0.5 * step * (force[j] + pull * x)",
        "langevin",
    ),
    "a limit on the force in the first half of a step alone": (
        "kernels/trajectory.py",
        "momentum[j] += kick(step, force[j] + pull * chain.v_new[j], largest)",
        "momentum[j] += 0.5 * step * (force[j] + pull * chain.v_new[j])",
        "hamiltonian",
    ),
    "kinetic energy left out at the end": (
        "kernels/trajectory.py",
        "finite_or_minus_inf(after - kinetic_energy(momentum) - before, scratch)",
        "finite_or_minus_inf(after - before, scratch)",
        "langevin",
    ),
    "bright rows left out of the energy": (
        "kernels/hamiltonian.py",
        "return log_density + bright_force(",
        "return log_density + 0.0 * bright_force(",
        "hamiltonian",
    ),
    "force of an earlier z": (
        "kernels/hamiltonian.py",
        "if stale:",
        "if False:",
        "langevin",
    ),
    "gradient of an earlier theta": (
        "kernels/hamiltonian.py",
        "copy(dynamics.gradient_new, dynamics.gradient)",
        "pass",
        "langevin",
    ),
    "energy of the trajectory's start forgotten": (
        "kernels/trajectory.py",
        "before = log_density - kinetic_energy(momentum)",
        "before = log_density",
        "hamiltonian",
    ),
    "odds of the trajectory's start kept": (
        "kernels/hamiltonian.py",
        "accept_given_z(chain, dynamics.log_density_new[0], bright)",
        "chain.v[:], chain.theta[:], chain.w[:] = chain.v_new, chain.theta_new, chain.w_new; "
        "chain.log_density[0] = dynamics.log_density_new[0]",
        "langevin",
    ),
    "slice at twice the depth": (
        "kernels/slice.py",
        "level = -rng.standard_exponential()",
        "level = -2.0 * rng.standard_exponential()",
        "slice",
    ),
    "interval shrunk on the wrong side": (
        "kernels/slice.py",
        "if t < 0.0:",
        "if t > 0.0:",
        "slice",
    ),
    "interval never extended": (
        "kernels/slice.py",
        "low = -width * rng.random()\n    high = low + width",
        "low = -0.1 * width * rng.random()\n    high = low + width",
        "slice-random",
    ),
    "factor of another likelihood": (
        "kernels/factors.py",
        "_log_factors_of_one(part, log_factor[k], own,",
        "_log_factors_of_one(part, log_factor[0], own,",
        "two-likelihoods",
    ),
    "coefficients of another likelihood": (
        "kernels/factors.py",
        "_log_factors_of_one(part, log_factor[k], own,",
        "_log_factors_of_one(part, log_factor[k], w[: rows.place[1]],",
        "two-likelihoods-cycle",
    ),
    "only the first run of a likelihood's rows read": (
        "kernels/factors.py",
        "i = j + 1  # the row",
        "i = stop  # the row",
        "slice-two",
    ),
    "slopes added to another likelihood's": (
        "kernels/factors.py",
        "own, index, i, j, out, slope, scratch",
        "own, index, i, j, out, gradient[: rows.place[1]], scratch",
        "hamiltonian-two",
    ),
    "a partition left out of the weights": (
        "out_of_core/target.py",
        "for part in parts:",
        "for part in parts[1:]:",
        "one-batch",
    ),
    "a partition counted twice": (
        "out_of_core/target.py",
        "for part in parts:",
        "for part in [*parts, parts[0]]:",
        "one-batch",
    ),
    "the same brightness in two batches": (
        "out_of_core/target.py",
        "made = [(stream(key, each, part), self",
        "made = [(stream(key, 1, part), self",
        "two-batches",
    ),
    "the same random numbers in two partitions": (
        "out_of_core/target.py",
        "part = FIRST_PARTITION + partition.number",
        "part = FIRST_PARTITION",
        "one-batch",
    ),
    "the same parameters in two batches": (
        "out_of_core/proposals.py",
        "stream(key, number, THETA)",
        "stream(key, 1, THETA)",
        "two-batches",
    ),
    "density of the proposals left out of their weights": (
        "out_of_core/proposals.py",
        "log_density - log_proposal_density(v)",
        "log_density",
        "one-batch",
    ),
    "bright rows of a batch drawn at half the rate": (
        "out_of_core/kernels.py",
        "rng.random() < -np.expm1(-rate)",
        "rng.random() < -np.expm1(-0.5 * rate)",
        "one-batch",
    ),
    "rates of rows rounded beside those drawn from": (
        "out_of_core/rates.py",
        "table_of(tables.near[index], tables.beyond[index],",
        "table_of(tables.near[index], tables.near[index],",
        "one-batch",
    ),
    "weight of a batch's last proposal kept": (
        "out_of_core/chain.py",
        "log_weight[at] - self.state.log_weight",
        "log_weight[at] - log_weight[at - 1]",
        "one-batch",
    ),
    "effects beyond their limits left out of the sum": (
        "kernels/dark_rates.py",
        "_subtract(sums, low, place + rows.n_sparse, beyond * size)",
        "pass",
        "parts",
    ),
    "dense part beyond its limit left out of the sum": (
        "kernels/dark_rates.py",
        "_subtract(sums, low, PARTS_SHARED.beyond, beyond * reach)",
        "pass",
        "parts",
    ),
    "growth of derivatives left out": (
        "kernels/parts.py",
        "past * past * past * np.exp(growth * past) / (limit * limit)",
        "past * past * past / (limit * limit)",
        "parts",
    ),
    "limits that set in too late": (
        "kernels/parts.py",
        "past = x - limit\n    if past <= 0.0:\n        return near, 0.0",
        "past = x - 1.5 * limit\n    if past <= 0.0:\n        return near, 0.0",
        "parts",
    ),
    "effects not measured within groups": (
        "kernels/parts.py",
        "effects[j] += each * row[j]",
        "effects[j] += 0.0",
        "parts",
    ),
    "signs of a row's numbers kept": (
        "kernels/sparse_columns.py",
        "(abs(number) if sizes else number) * w[place + rows.indices[j]]",
        "number * w[place + rows.indices[j]]",
        "parts",
    ),
    "effects beyond their limits left out of rows": (
        "kernels/rows.py",
        "            place = k * rows.n_sparse\n            add_effects(",
        "            place = k * rows.n_sparse\n            k or add_effects(",
        "parts",
    ),
    "only the first effect of a row counted": (
        "kernels/dark_rates.py",
        "column, size = effect_at(rows, i, j)\n        place",
        "column, size = effect_at(rows, i, 0)\n        place",
        "parts",
    ),
    "sizes of a row's numbers left out of the sum": (
        "kernels/dark_rates.py",
        "_subtract(sums, low, place, near * size)",
        "_subtract(sums, low, place, near)",
        "parts",
    ),
    "reach of the dense part left out of the sum": (
        "kernels/dark_rates.py",
        "_subtract(sums, low, PARTS_SHARED.near, near * reach)",
        "_subtract(sums, low, PARTS_SHARED.near, near)",
        "parts",
    ),
    "derivatives at the anchor alone": (
        "bounds/taylor_parts.py",
        "eta - end * span, eta + end * span, y)",
        "eta, eta, y)",
        "parts",
    ),
    "weights of the parts left out of the remainder": (
        "bounds/taylor_parts.py",
        "near = steepest * typical**2 / 6.0",
        "near = steepest * (reach * parts.typical) ** 2 / 6.0",
        "parts",
    ),
    "reach of the dense part too short": (
        "bounds/parts.py",
        "return np.sqrt(np.einsum(",
        "return 0.5 * np.sqrt(np.einsum(",
        "parts",
    ),
    "a row that is kept bright may darken": (
        "kernels/dark_rates.py",
        "        return np.inf\n",
        "        return 0.0\n",
        "parts-kept",
    ),
    "a row that is kept bright counted among the dark": (
        "kernels/dark_rates.py",
        "    if rows.constants[i, ROW.near] == np.inf:\n        return\n",
        "",
        "parts-kept",
    ),
    "directions left out of the gradient": (
        "kernels/geometry.py",
        "    add_stretch(geometry, g_v)",
        "    pass",
        "hamiltonian",
    ),
    "bright rows left out of the slice": (
        "kernels/slice.py",
        "return log_ratio_at(posterior, log_density, chain, bright, scratch), log_density",
        "return log_density - chain.log_density[0], log_density",
        "slice-random",
    ),
    "Jacobian of effects that follow left out": (
        "kernels/local.py",
        "total = log_density + log_sds",
        "total = log_density",
        "local-globals",
    ),
    "bright rows left out of a trajectory of global parameters": (
        "kernels/local.py",
        "total += out[i]",
        "total += 0.0 * out[i]",
        "local-globals",
    ),
    "conditional distributions of earlier global parameters": (
        "kernels/local.py",
        "copy(proposals.moments_new.ravel(), proposals.moments.ravel())",
        "pass",
        "local-globals",
    ),
    "prior of effects counted twice": (
        "kernels/local.py",
        "log_density - chain.log_density[0] - expected",
        "log_density - chain.log_density[0]",
        "local-effects",
    ),
    "slice of an effect at the height of one": (
        "kernels/group_effects.py",
        "level < total - before",
        "level < total",
        "local-effects",
    ),
    "one bright row of each group alone": (
        "kernels/group_effects.py",
        "following[i] = first[g]",
        "following[i] = -1",
        "local-effects",
    ),
    "predictors that do not move with an effect": (
        "kernels/group_effects.py",
        "groups.eta[i] + shift",
        "groups.eta[i]",
        "local-effects",
    ),
    "darkening by groups with the inverse ratio": (
        "kernels/group_effects.py",
        "log_q - bright.log_factor[i]",
        "bright.log_factor[i] - log_q",
        "local-brightness",
    ),
    "probability left out of brightening by groups": (
        "kernels/group_effects.py",
        "plan.log_factor[i] - groups.log_q[i]",
        "plan.log_factor[i]",
        "local-brightness",
    ),
    "all rows proposed like the brightest of their group": (
        "kernels/group_effects.py",
        "rng.random() < own / most",
        "True",
        "local-brightness",
    ),
    "distance of a group left out of darkening": (
        "kernels/group_effects.py",
        "boost[posterior.rows.codes[n, 0]] * q[level[n]]",
        "q[level[n]]",
        "local-brightness",
    ),
    "bright rows of groups proposed to brighten": (
        "kernels/group_effects.py",
        "if is_bright(bright, n):\n                continue",
        "if False:\n                continue",
        "local-brightness",
    ),
    "rows of groups that just brightened may darken": (
        "kernels/group_effects.py",
        "for i in range(n_bright - 1, -1, -1)",
        "for i in range(bright.count[0] - 1, -1, -1)",
        "local-brightness",
    ),
}


#: Mutants of sums that others of the same sums stand for.
SLOW = {
    "dense part beyond its limit left out of the sum",
    "effects beyond their limits left out of rows",
    "effects beyond their limits left out of the sum",
    "growth of derivatives left out",
    "limits that set in too late",
    "slice of an effect at the height of one",
    "sizes of a row's numbers left out of the sum",
    "reach of the dense part left out of the sum",
    "signs of a row's numbers kept",
    "weights of the parts left out of the remainder",
}
JOINT_MOVES = ["independent", "walk", "independent-kept", "walk-kept"]
BATCHES = ["one-batch", "two-batches"]
PARTS = ["parts", "parts-kept"]
SURROGATE_MOVES = ["surrogate", "surrogate-twice", "surrogate-walk"]
LOCAL = ["local-globals", "local-effects", "local-brightness"]
TRAJECTORIES = ["hamiltonian", "langevin", "hamiltonian-two"]
REFERENCE = [*TRAJECTORIES, "slice", "slice-random", "slice-two", "rescaling"]


@pytest.fixture(scope="module")
def run_check():
    """``run_check(scheme, folder)`` checks the package in a folder; see `enumeration.server`."""
    environment = dict(os.environ, NUMBA_DISABLE_JIT="1", PYTHONPATH=str(PACKAGE.parent))
    with subprocess.Popen(
        [sys.executable, str(HERE / "server.py")],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:

        def run(scheme, folder):
            script = "check_joint.py" if scheme in JOINT_MOVES else "check.py"
            if scheme in REFERENCE:
                script = "check_reference.py"
            if scheme in SURROGATE_MOVES:
                script = "check_surrogate.py"
            if scheme in BATCHES:
                script = "check_batches.py"
            if scheme in PARTS:
                script = "check_parts.py"
            if scheme in LOCAL:
                script = "check_local.py"
            server.stdin.write(json.dumps([str(HERE / script), scheme, str(folder)]) + "\n")
            server.stdin.flush()
            return SimpleNamespace(**json.loads(server.stdout.readline()))

        yield run


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy with Python's bytecode: of a mutant, the mutated module alone is compiled again."""
    copy = tmp_path_factory.mktemp("package") / "pymc_flymc"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(copy, quiet=1)
    return copy


ALL = [*SCHEMES, *JOINT_MOVES, *SURROGATE_MOVES, *REFERENCE, *BATCHES, *PARTS, *LOCAL]


@pytest.mark.parametrize("scheme", ALL)
def test_joint_law_is_invariant(run_check, package, scheme):
    result = run_check(scheme, package.parent)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in MUTANTS],
)
def test_mutant_is_caught(run_check, package, mutant, tmp_path):
    file, line, changed, scheme = MUTANTS[mutant]
    shutil.copytree(package, tmp_path / "pymc_flymc")
    path = tmp_path / "pymc_flymc" / file
    source = path.read_text()
    assert source.count(line) == 1, "the mutated line has changed: mend the mutant"
    path.write_text(source.replace(line, changed))
    result = run_check(scheme, tmp_path)
    # 1 is the verdict of the check itself; a mutant that merely crashed would prove nothing.
    # An IndexError is what a set of bright rows with more members than rows comes to, a KeyError a
    # state that cannot be.
    verdicts = "AssertionError", "IndexError", "KeyError"
    caught = any(word in result.stdout for word in ("|pi P - pi|", "largest difference")) or any(
        v in result.stderr for v in verdicts
    )
    assert result.returncode == 1 and caught, result.stdout + result.stderr
