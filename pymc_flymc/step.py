"""The PyMC step method: a thin shell around a target and its chains."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, ClassVar, Literal

import numpy as np
from pymc.blocking import PointType, StatsType
from pymc.model import Model, modelcontext
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import RandomGenerator, get_random_generator
from pytensor.graph.traversal import graph_inputs
from rich.progress import TextColumn
from rich.table import Column

from pymc_flymc.anchor import anchor_at, find_anchor
from pymc_flymc.bounds import Bound, Problem
from pymc_flymc.chain import FireflyChain
from pymc_flymc.choice import check_settings, choose_target, mixture
from pymc_flymc.density import Layout, Surrogate, flatten_model
from pymc_flymc.kernels.conditional import new_moves
from pymc_flymc.model import anchor_point, read_model
from pymc_flymc.passes import RowDerivatives
from pymc_flymc.resampling import ImplicitResampling, Resampling
from pymc_flymc.tuning import Tuning

__all__ = ["FireflyMH"]

_log = logging.getLogger("pymc.flymc")

#: Starting points are this many posterior standard deviations around the anchor, so that R-hat can
#: tell whether the chains have forgotten them.
OVERDISPERSION = 2.0
#: Transitions in a step before tuning has had its say: conditional and joint.
FIRST_TRANSITIONS = (20, 2)


@dataclass_state
class FireflyState(StepMethodState):
    """What a saved sampling state holds; see `FireflyChain.save`."""

    tune: bool
    tuning: Tuning | None = field(default=None)
    chain_state: dict[str, Any] | None = field(default=None)


class FireflyMH(BlockedStep):
    r"""Firefly Monte Carlo with Metropolis-Hastings updates of the parameters.

    Samples the exact posterior of a model whose likelihood is a regression on many rows, reading
    only the few rows that are bright at the time.

    Parameters
    ----------
    vars : sequence of variables, optional
        Variables to sample; all free variables by default. Every variable that the likelihood
        depends on must be among them.
    bound : Bound, "auto" or None
        Lower bound on each row's likelihood. With ``Taylor()`` parameters and brightness are
        updated together, with ``JaakkolaJordan()`` in turn. For logistic likelihoods "auto" takes
        the one that promises more effective draws for the rows read, and says so; for softmax
        ones it is ``Bohning()``, for Student-t ones ``Tangent()``, for counts ``Taylor()``. None is
        regular MCMC: every transition reads all rows.
    brightness : ImplicitResampling or ExplicitResampling, optional
        How the brightness of the rows is resampled in conditional moves, which it calls for;
        ``ImplicitResampling()`` by default.
    proposal : {"auto", "random_walk", "pcn", "independent"}
        Proposal for the parameters, in coordinates whitened at the anchor: a Gaussian random walk,
        preconditioned Crank-Nicolson around the anchor, independent draws from the Laplace
        approximation (joint moves only), or a mixture learnt in tuning.
    transitions : int, optional
        Transitions of (parameters, brightness) in one draw. By default chosen in tuning, so that
        neighbouring draws are nearly independent.
    anchor : dict, optional
        Values of the free variables, by name, on the scale on which the model defines them: the
        point at which the bound is tuned. By default the posterior mode is searched for.
    model : Model, optional
        Taken from the context if not given.
    rng : RandomGenerator, optional
        ``pm.sample`` hands each chain a generator of its own.
    initial_point : dict, optional
        Default starting point of the model on the unconstrained scale.

    Raises
    ------
    UnsupportedModelError
        If the model has no likelihood that the method knows, or not in a form it can read, if it
        has discrete free variables, or if a variable of the likelihood is not among `vars`.
    ValueError
        If data or settings are invalid, or if the posterior has no mode.

    Notes
    -----
    Statistics of each draw: ``n_bright``, bright rows at its end; ``likelihood_queries``, rows
    whose likelihood was evaluated in it, for parameters and brightness together; ``accept``, mean
    acceptance probability of its parameter updates; ``random_walk_scale`` and ``pcn_scale``, step
    sizes in posterior standard deviations; ``transitions``.

    Chains start from points drawn around the anchor, more dispersed than the posterior, unless
    ``pm.sample`` is given ``initvals``.

    References
    ----------
    Maclaurin, D. and Adams, R. P. (2014). Firefly Monte Carlo: exact MCMC with subsets of data.
    UAI.

    Examples
    --------
    >>> with pm.Model():
    ...     beta = pm.Normal("beta", 0, 1, shape=X.shape[1])
    ...     pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    ...     idata = pm.sample(step=FireflyMH())
    """

    name = "firefly_mh"
    default_blocked = True
    default_tune_steps = 500
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        "n_bright": (np.int64, []),
        "likelihood_queries": (np.int64, []),
        "accept": (np.float64, []),
        "random_walk_scale": (np.float64, []),
        "pcn_scale": (np.float64, []),
        "transitions": (np.int64, []),
    }
    _state_class = FireflyState

    def __init__(
        self,
        vars: Sequence[Any] | None = None,
        *,
        bound: Bound | Literal["auto"] | None = "auto",
        brightness: Resampling | None = None,
        proposal: Literal["auto", "random_walk", "pcn", "independent"] = "auto",
        transitions: int | None = None,
        anchor: dict[str, Any] | None = None,
        model: Model | None = None,
        rng: RandomGenerator = None,
        initial_point: PointType | None = None,
    ) -> None:
        check_settings(bound, brightness, proposal)
        if transitions is not None and (transitions != int(transitions) or transitions < 1):
            raise ValueError(f"transitions must be a positive integer, not {transitions!r}")
        model = modelcontext(model)
        reading = read_model(model, vars)
        self.vars = list(reading.vars)
        self.rng = get_random_generator(rng)
        self.tune = True
        initial_point = initial_point or model.initial_point()
        inputs = set(graph_inputs([reading.rest_logp]))
        others = [v for v in model.value_vars if v in inputs and v not in self.vars]
        self._layout = Layout.of(self.vars, initial_point)
        self._others_layout = Layout.of(others, initial_point)
        self._default_theta = self._layout.ravel(initial_point)

        design, y = reading.predictor.design, reading.observed
        graph = flatten_model(
            reading.rest_logp,
            reading.predictor.coefficients,
            design.n_coefficients,
            self.vars,
            self._layout,
            others,
            self._others_layout,
        )
        surrogate = Surrogate(graph, self._others_layout.ravel(initial_point))
        derivatives = RowDerivatives(reading.likelihood)
        if anchor is None:
            found = find_anchor(
                surrogate, design, y, derivatives, self._default_theta, self._layout, reading.name
            )
        else:
            theta = self._layout.ravel(anchor_point(model, anchor))
            found = anchor_at(surrogate, design, y, derivatives, theta, self._layout)
        self.brightness = ImplicitResampling() if brightness is None else brightness
        problem = Problem(design, y, reading.likelihood, derivatives, found)
        others_values = self._others_layout.ravel(initial_point)
        self.target = choose_target(graph, problem, bound, brightness, proposal, others_values)
        self._mixture = mixture(self.target, proposal)
        self._proposal = proposal
        self._transitions = transitions
        self.tuning: Tuning | None = None
        self._chain: FireflyChain | None = None
        _log.info(
            f"FireflyMH: {reading.name!r}, anchor found in {found.passes:.1f} passes over the data"
        )

    @property
    def bound(self) -> Bound | None:
        """The bound in use."""
        return self.target.bound

    def setup_chain(self, rng: RandomGenerator, tune: int, draws: int) -> None:
        """Start a new chain: nothing of an earlier one remains."""
        super().setup_chain(rng, tune, draws)
        self._chain = self._new_chain()
        self.tune = tune > 0
        first = FIRST_TRANSITIONS[self.target.is_joint]
        self.tuning = Tuning(
            steps=tune,
            transitions=self._transitions or first,
            fewest=first if self.target.is_joint else 1,
            adapt_transitions=self._transitions is None,
            adapt_weight=self._proposal == "auto",
        )

    def _new_chain(self) -> FireflyChain:
        moves = new_moves(len(self._default_theta), np.array(self._mixture))
        return FireflyChain(self.target, self.brightness, moves)

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make the transitions of one draw."""
        if self._chain is None or self.tuning is None:
            self.setup_chain(self.rng, 0, 1)
        chain, tuning = self._chain, self.tuning
        assert chain is not None and tuning is not None
        theta = self._layout.ravel(point)
        chain.set_others(self._others_layout.ravel(point))
        if not chain.started:
            self._start(chain, theta)
        elif not np.array_equal(theta, self._layout.round(chain.state.theta)):
            # Somebody else moved our variables: z must be drawn again from its conditional law.
            chain.start_at(self.rng, theta)
        transitions = tuning.transitions
        accept = chain.advance(self.rng, transitions, tuning.gain() if self.tune else 0.0)
        if self.tune:
            tuning.record(chain.state.v, chain.moves)
        stats = {
            "n_bright": chain.n_bright,
            "likelihood_queries": chain.take_queries(),
            "accept": accept,
            "random_walk_scale": float(np.exp(chain.moves.log_scale[0])),
            "pcn_scale": float(np.exp(chain.moves.log_scale[1])),
            "transitions": transitions,
        }
        # All keys, in their order; never in place: the point may be memory shared with PyMC.
        return {**point, **self._layout.unravel(chain.state.theta)}, [stats]

    def _start(self, chain: FireflyChain, theta: np.ndarray) -> None:
        if not np.array_equal(theta, self._default_theta):
            if not np.isfinite(chain.start_at(self.rng, theta)):
                raise ValueError("FireflyMH: the model's log density is not finite at initvals")
            return
        spread = OVERDISPERSION
        for _ in range(50):
            v = spread * self.rng.standard_normal(len(theta))
            if np.isfinite(chain.log_density_at(v)):
                chain.start(self.rng, v)
                return
            spread *= 0.8  # beyond the support of a bounded variable
        raise ValueError("FireflyMH: found no starting point of finite density around the anchor")

    @property
    def chain_state(self) -> dict[str, Any] | None:
        """State of the running chain, a part of `sampling_state`."""
        return None if self._chain is None else self._chain.save()

    @chain_state.setter
    def chain_state(self, saved: dict[str, Any] | None) -> None:
        if saved is None:
            self._chain = None
            return
        if self._chain is None:
            self._chain = self._new_chain()
        self._chain.restore(saved)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle without the model, which holds the data: they travel as a file."""
        dropped = ("_BlockedStep__newargs", "_chain")
        state = {k: v for k, v in self.__dict__.items() if k not in dropped}
        return _rebuild, (type(self), state, self.chain_state)

    @staticmethod
    def _progressbar_config(n_chains: int = 1) -> tuple[list[TextColumn], dict[str, list[int]]]:
        columns = [
            TextColumn("{task.fields[n_bright]}", table_column=Column("Bright rows", ratio=1)),
            TextColumn(
                "{task.fields[likelihood_queries]}", table_column=Column("Queries", ratio=1)
            ),
        ]
        return columns, {"n_bright": [0] * n_chains, "likelihood_queries": [0] * n_chains}

    @staticmethod
    def _make_progressbar_update_functions() -> tuple[Callable[..., Any], ...]:
        def update(stats: dict[str, Any]) -> dict[str, Any]:
            return {key: stats[key] for key in ("n_bright", "likelihood_queries")}

        return (update,)


def _rebuild(cls: type, state: dict[str, Any], chain_state: dict[str, Any] | None) -> FireflyMH:
    step: FireflyMH = object.__new__(cls)
    step.__dict__.update(state)
    step._chain = None
    step.chain_state = chain_state
    return step
