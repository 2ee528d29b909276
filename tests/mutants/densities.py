"""Mutants of densities and coordinates."""

from tests.mutants.mutant import Rows

MUTANTS: Rows = {
    "kernels/native.py": [
        (
            "what rows share swapped",
            "w_out[j] = first if j == n else second",
            "w_out[j] = second if j == n else first",
            "independent",
        ),
        (
            "gradient of coefficients subtracted",
            "out[j] += gradient[j]",
            "out[j] -= gradient[j]",
            "hamiltonian",
        ),
        (
            "gradient of coefficients in the place of the whole",
            "out[j] += gradient[j]",
            "out[j] = gradient[j]",
            "hamiltonian",
        ),
        (
            "the Jacobian's rows one too few",
            "for j in range(jacobian.start.shape[0] - 1):",
            "for j in range(jacobian.start.shape[0] - 2):",
            "tests/kernels/test_hamiltonian.py::test_force_is_the_gradient_of_the_joint_density",
        ),
        (
            "one coefficient for all",
            "w_out[j] = w[j]\n    for j in range(out",
            "w_out[j] = w[0]\n    for j in range(out",
            "hamiltonian-two",
        ),
    ],
    "kernels/geometry.py": [
        (
            "parameters in standardised coordinates without the centre",
            "diagonal[i] = theta[geometry.diagonal[i]] - geometry.centre[geometry.diagonal[i]]",
            "diagonal[i] = theta[geometry.diagonal[i]]",
            "rescaling",
        ),
        (
            "directions left out of the gradient",
            "    add_stretch(geometry, g_v)",
            "    pass",
            "hamiltonian",
        ),
        (
            "the centre left out",
            "theta[i] = geometry.centre[i] + total",
            "theta[i] = total",
            "independent",
        ),
        (
            "dense elements read in the order of theta",
            "total += geometry.factor[i, j] * v[geometry.dense[j]]",
            "total += geometry.factor[i, j] * v[j]",
            "tests/kernels/test_geometry.py",
        ),
        (
            "coupling added",
            "diagonal[i] -= each * coupling[i]",
            "diagonal[i] += each * coupling[i]",
            "tests/kernels/test_geometry.py",
        ),
        (
            "coupling not taken back",
            "diagonal[k] += geometry.coupling[i, k] * x",
            "diagonal[k] -= geometry.coupling[i, k] * x",
            "tests/kernels/test_geometry.py",
        ),
        (
            "coupling left out of the gradient",
            "g_theta[geometry.dense[j]] -= total",
            "pass",
            "tests/kernels/test_geometry.py",
        ),
        (
            "a stretch that is not undone",
            "along *= geometry.stretch[k] / (1.0 + geometry.stretch[k])",
            "along *= geometry.stretch[k]",
            "tests/kernels/test_geometry.py",
        ),
        (
            "scales divided where draws have a larger variance",
            "scale=self.scale * factors",
            "scale=self.scale / factors",
            "tests/kernels/test_geometry.py",
        ),
    ],
    "kernels/posterior.py": [
        (
            "all coefficients are said to be the same",
            "if not abs(w_new[j] - w[j]) <= ROUNDING * abs(w[j]):",
            "if not abs(w_new[j] - w[j]) >= 0.0:",
            "implicit-single-q",
        ),
        (
            "coefficients far from zero are said to be the same",
            "ROUNDING = 16.0 * float(np.finfo(np.float64).eps)",
            "ROUNDING = 1e-12",
            "tests/kernels/test_rescaling.py",
        ),
        (
            "coefficients leave the cached factors",
            "copy(chain.w, chain.w_new)",
            "pass",
            "tests/kernels/test_rescaling.py",
        ),
        (
            "factors of rows forgotten where coefficients stay",
            "chain.log_factor_new[i] = bright.log_factor[i]",
            "pass",
            "tests/kernels/test_rescaling.py",
        ),
        (
            "cached odds kept on acceptance",
            "bright.log_factor[i] = chain.log_factor_new[i]",
            "pass",
            "implicit-single-q",
        ),
        (
            "cached density kept on acceptance",
            "copy(chain.w_new, chain.w)\n    chain.log_density[0] = log_density",
            "copy(chain.w_new, chain.w)",
            "implicit-single-q",
        ),
        (
            "rates of the dark rows left out of a conditional walk",
            "log_ratio += dark_rate(chain.dark, chain.w) - dark_rate(chain.dark, chain.w_new)",
            "pass",
            "walk",
        ),
        (
            "bright rows left out of the acceptance",
            "log_ratio += chain.log_factor_new[i] - bright.log_factor[i]",
            "pass",
            "with-replacement",
        ),
        (
            "coefficients of the old parameters kept",
            "copy(chain.w_new, chain.w)\n    chain.log_density[0] = log_density",
            "chain.log_density[0] = log_density",
            "implicit-single-q",
        ),
        (
            "density of the old state left out of the ratio",
            "log_ratio = log_density - chain.log_density[0]",
            "log_ratio = log_density",
            "implicit-single-q",
        ),
        (
            "remainder of the bounds left out of a walk",
            "log_ratio += dark_rate(chain.dark, chain.w) - dark_rate(chain.dark, chain.w_new)",
            "pass",
            "surrogate-walk",
        ),
        (
            "bright rows left out of a walk",
            "log_ratio += chain.log_factor_new[i] - bright.log_factor[i]",
            "pass",
            "surrogate-walk",
        ),
    ],
    "graphs/tools.py": [
        (
            "a probability beyond one that no row rules out",
            "pt.switch(pt.isnan(terms[np.flatnonzero(~used)]).any(), -np.inf, total)",
            "total",
            "tests/reading/test_hurdles.py::test_no_zeros",
        ),
        (
            "terms of no weight without a value",
            "weights[used] * terms[np.flatnonzero(used)]",
            "weights * terms",
            "tests/reading/test_hurdles.py::test_no_zeros",
        ),
    ],
    "agreement/compiled.py": [
        (
            "no rounding errors",
            "statistics * (1.0 + errors)",
            "statistics",
            "tests/agreement/test_rounded_sums.py::test_sums_of_rare_events_are_refused",
        ),
    ],
}
