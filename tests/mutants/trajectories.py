"""Mutants of moves with gradients."""

from tests.mutants.mutant import Rows

MUTANTS: Rows = {
    "kernels/hamiltonian.py": [
        (
            "Jacobian of effects that follow left out of a trajectory",
            "log_density += log_volume(posterior.geometry.following, chain.theta_new)",
            "pass",
            "hamiltonian-following",
        ),
        (
            "Jacobian of effects that follow left out where a trajectory begins",
            "log_density += log_volume(posterior.geometry.following, chain.theta)",
            "pass",
            "hamiltonian-following",
        ),
        (
            "bright rows left out of the energy",
            "return log_density + bright_force(",
            "return log_density + 0.0 * bright_force(",
            "hamiltonian",
        ),
        ("force of an earlier z", "if stale:", "if False:", "langevin"),
        (
            "gradient of an earlier theta",
            "copy(dynamics.gradient_new, dynamics.gradient)",
            "pass",
            "langevin",
        ),
        (
            "odds of the trajectory's start kept",
            "accept_conditional_update(chain, dynamics.log_density_new[0], bright)",
            (
                "chain.v[:], chain.theta[:], chain.w[:] = chain.v_new, chain.theta_new, "
                "chain.w_new; chain.log_density[0] = dynamics.log_density_new[0]"
            ),
            "langevin",
        ),
        (
            "conditional trajectories always accepted",
            "if -rng.standard_exponential() < log_ratio:",
            "if True:",
            "hamiltonian",
        ),
    ],
    "kernels/trajectory.py": [
        (
            "shrinkage too weak",
            "np.sqrt(n) / size.gamma[0] * error",
            "np.sqrt(n) / GAMMA * error",
            "tests/kernels/test_metropolis.py",
        ),
        (
            "errors with the wrong sign",
            "(size.target[0] - accept - error)",
            "(accept - size.target[0] - error)",
            "tests/kernels/test_metropolis.py",
        ),
        (
            "no limit on the step",
            "/ size.gamma[0] * error, log_largest)",
            "/ size.gamma[0] * error, np.inf)",
            "tests/kernels/test_metropolis.py",
        ),
        (
            "updates not counted",
            "state[AVERAGING.updates] += 1.0",
            "state[AVERAGING.updates] = 1.0",
            "tests/kernels/test_metropolis.py",
        ),
        (
            "the last step taken, not the averaged one",
            "size.log_step[0] = size.averaging[AVERAGING.log_step]",
            "pass",
            "tests/kernels/test_metropolis.py",
        ),
        ("steps averaged too quickly", "n**-KAPPA", "n**-1.0", "tests/kernels/test_metropolis.py"),
        (
            "shrinkage towards the first step itself",
            "size.averaging[AVERAGING.centre] = log_step + np.log(2.0)",
            "size.averaging[AVERAGING.centre] = log_step",
            "tests/kernels/test_metropolis.py",
        ),
        (
            "half a momentum update left out",
            "momentum[j] += kick(",
            "momentum[j] += 0.0 * kick(",
            "hamiltonian",
        ),
        (
            "normal distribution followed, and not taken off the force",
            "force[j], pull * chain.v_new[j]",
            "force[j], 0.0",
            "hamiltonian",
        ),
        (
            "a limit on the force in the second half of a step alone",
            "momentum[j] + kick(step, force[j], pull * x, largest)",
            "momentum[j] + 0.5 * step * (force[j] + pull * x)",
            "langevin",
        ),
        (
            "a limit on the force in the first half of a step alone",
            "momentum[j] += kick(step, force[j], pull * chain.v_new[j], largest)",
            "momentum[j] += 0.5 * step * (force[j] + pull * chain.v_new[j])",
            "hamiltonian",
        ),
        (
            "a limit on what undoes the rotation",
            "undone = 0.5 * step * pull",
            "undone = 0.0",
            "tests/kernels/test_hamiltonian.py",
        ),
        (
            "kinetic energy left out at the end",
            "finite_or_minus_inf(after - kinetic_energy(momentum) - before, scratch)",
            "finite_or_minus_inf(after - before, scratch)",
            "langevin",
        ),
        (
            "energy of the trajectory's start forgotten",
            "before = log_density - kinetic_energy(momentum)",
            "before = log_density",
            "hamiltonian",
        ),
        (
            "length of a trajectory that depends on the momentum's sign",
            "length = (0.5 + 0.5 * rng.random()) * dynamics.length[0]",
            "length = dynamics.length[0]",
            "hamiltonian",
        ),
        (
            "a rotation the wrong way",
            "momentum[j] = cosine * p - pull * sine * x",
            "momentum[j] = cosine * p + pull * sine * x",
            "hamiltonian",
        ),
    ],
}
