"""Mutants of what a chain takes over from other step methods."""

from tests.mutants.mutant import Rows

_TESTS = "tests/sampling/test_chain.py::test_"
DENSITY = f"{_TESTS}density_given_others_is_that_of_a_chain_that_starts_with_them"
WEIGHT = f"{_TESTS}log_weight_given_others"
UNCHANGED = f"{_TESTS}unchanged_others_change_nothing"
RAISES = f"{_TESTS}others_for_which_the_density_raises_are_not_taken_over"
NOT_STARTED = f"{_TESTS}before_a_chain_starts_nothing_is_evaluated"

_CHANGED = "if not np.array_equal(others, self.others):"
_BEFORE = "state, before = self.state, self.state.log_density[0]"
_STATISTICS = "np.concatenate([self.statistics[: self._n_collapsed], others])\n            if"
_STARTED = "if self.started:  # first, for it may raise"
_EVALUATED = "state.log_density[0] = self.target.density(state.theta, statistics, state.w_new)"
_WEIGHS = "if self.target.spec.weighs_density:"
_WEIGHT = "state.log_weight[0] += state.log_density[0] - before"
_TAKEN = "self.others[:], self.statistics[:] = others, statistics"

MUTANTS: Rows = {
    "sampling/chain.py": [
        ("values of others never taken over", _CHANGED, "if False:", f"{DENSITY}[metropolis]"),
        ("unchanged values of others taken over", _CHANGED, "if True:", f"{UNCHANGED}[metropolis]"),
        (
            "values of others taken over where none changes",
            _CHANGED,
            "if np.array_equal(others, self.others):",
            f"{DENSITY}[metropolis]",
        ),
        (
            "weight changed by the density itself",
            _BEFORE,
            "state, before = self.state, 0.0",
            f"{WEIGHT}[joint]",
        ),
        (
            "density given the old values of others",
            _STATISTICS,
            _STATISTICS.replace("], others]", "], self.others]"),
            f"{DENSITY}[metropolis]",
        ),
        (
            "statistics of bounds forgotten with the old values of others",
            _STATISTICS,
            _STATISTICS.replace(
                "self.statistics[: self._n_collapsed]", "np.zeros(self._n_collapsed)"
            ),
            f"{DENSITY}[metropolis]",
        ),
        (
            "density evaluated before a chain starts",
            _STARTED,
            _STARTED.replace("self.started", "True"),
            NOT_STARTED,
        ),
        (
            "density stale once a chain has started",
            _STARTED,
            _STARTED.replace("self.started", "False"),
            f"{DENSITY}[hamiltonian]",
        ),
        (
            "density of others not kept",
            _EVALUATED,
            _EVALUATED.replace("state.log_density[0]", "_"),
            f"{DENSITY}[slice]",
        ),
        (
            "density given others of the last proposal",
            _EVALUATED,
            _EVALUATED.replace("state.theta", "state.theta_new"),
            f"{DENSITY}[metropolis]",
        ),
        (
            "density given statistics without the new values",
            _EVALUATED,
            _EVALUATED.replace(" statistics", " self.statistics"),
            f"{DENSITY}[metropolis]",
        ),
        (
            "coefficients of the bright rows' factors overwritten",
            _EVALUATED,
            _EVALUATED.replace("state.w_new", "state.w"),
            f"{DENSITY}[metropolis]",
        ),
        (
            "weight of a surrogate changed by the density",
            _WEIGHS,
            "if True:",
            f"{WEIGHT}[surrogate]",
        ),
        (
            "weight of joint proposals stale after others have moved",
            _WEIGHS,
            "if False:",
            f"{WEIGHT}[joint]",
        ),
        ("weight changed the other way", _WEIGHT, _WEIGHT.replace("+=", "-="), f"{WEIGHT}[joint]"),
        (
            "weight changed by the sum of both densities",
            _WEIGHT,
            _WEIGHT.replace("- before", "+ before"),
            f"{WEIGHT}[joint]",
        ),
        (
            "weight replaced by the change of density",
            _WEIGHT,
            _WEIGHT.replace("+=", "="),
            f"{WEIGHT}[joint]",
        ),
        (
            "values of others not remembered",
            _TAKEN,
            "self.statistics[:] = statistics",
            f"{DENSITY}[metropolis]",
        ),
        (
            "statistics of kernels without the values of others",
            _TAKEN,
            "self.others[:] = others",
            f"{DENSITY}[metropolis]",
        ),
        (
            "values of others remembered although the density raises",
            f"{_STARTED}: then nothing has been taken over\n",
            f"self.others[:] = others\n            {_STARTED}\n",
            f"{RAISES}[metropolis]",
        ),
        (
            "statistics with values of others although the density raises",
            f"{_STARTED}: then nothing has been taken over\n",
            f"self.statistics[:] = statistics\n            {_STARTED}\n",
            f"{RAISES}[metropolis]",
        ),
        (
            "no density although the density raises",
            f"{_STARTED}: then nothing has been taken over\n",
            f"state.log_density[0] = 0.0\n            {_STARTED}\n",
            f"{RAISES}[metropolis]",
        ),
    ],
}
