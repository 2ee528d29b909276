"""Whether independent proposals can sample a posterior whose rows are out of core."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, override

import numpy as np

from pymc_flymc.anchor.expanded_density import expanded_density
from pymc_flymc.bounds import Bound, Problem, Tangent, Taylor, is_for_joint_moves
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods import Normal
from pymc_flymc.likelihoods.weighted import unweighted
from pymc_flymc.out_of_core.batch_chain import BatchChain
from pymc_flymc.out_of_core.batch_target import BatchTarget, build_batch_target
from pymc_flymc.out_of_core.proposals import BATCH, draw_v, log_proposal_density
from pymc_flymc.regression.regression import names_of
from pymc_flymc.reporting import count, doing, log
from pymc_flymc.sampling.adaptation import JOINT, Adaptation
from pymc_flymc.sampling.proposal_weights import (
    HEAVY,
    LARGEST_WEIGHT,
    REPLICATES,
    SEED,
    Independence,
    places_far_out,
    weigh_approximation,
)
from pymc_flymc.sampling.sampler import Sampler, SamplingTask

#: Largest autocorrelation time, in draws: posteriors for which it is longer are refused.
LARGEST_TIME = 20.0


class BatchAdaptation(Adaptation):
    """Independent proposals have nothing to learn."""

    spec = JOINT
    fewest = most = 1

    @override
    def first_transitions(self, target: Any) -> int:
        return 1

    @override
    def begin(self, target: Any) -> Any:
        return ()

    @override
    def new_chain(self, target: Any, brightness: Any, anchor: Any) -> Any:
        return BatchChain(target)

    @override
    def statistics(self, chain: Any) -> dict[str, Any]:
        return {}


def choose_batches(task: SamplingTask) -> Sampler:
    """Prepare batches of independent proposals, and see whether they sample the posterior.

    Raises
    ------
    UnsupportedModelError
        If the weights of proposals have heavy tails, or vary by orders of magnitude.
    """
    graph, problems, names = task.graph, task.problems, names_of(task.problems)
    bounds = [_bound_of(*each) for each in zip(problems, task.bounds, strict=True)]
    # Before a pass over all rows: no row is read for this.
    anchor = problems[0].anchor
    v = draw_v(np.random.default_rng(SEED), BATCH, len(anchor.theta))
    density = expanded_density(graph, np.empty(0))
    _check(weigh_approximation(density, anchor, v, log_proposal_density(v)), names)
    target = build_batch_target(graph, problems, bounds)
    with doing("trying joint moves"):
        log_weight, bright, _ = target.begin((SEED,), range(1, 2))()
    weighed = Independence.of(log_weight)
    _check(weighed, names)
    if heavier_than_proposals(target, log_weight):
        log.warning(
            f"{HEAVY} the proposals of {names}: chains may hardly come there, which R-hat may "
            "hide. Where the data do not limit a parameter, give it a prior of shorter tails. Or "
            "put the rows into the model, without data=, where Firefly has moves for any posterior"
        )
    n_rows = sum(problem.design.n_rows for problem in problems)
    of_bounds = ", ".join(dict.fromkeys(bound.name for bound in bounds))
    log.info(
        f"joint moves read {count(float(bright.mean()))} of {n_rows:,} rows of "
        f"{names} each ({of_bounds} bound), {BATCH:,} proposals at a time; in a pilot "
        f"run there were {1.0 / weighed.autocorrelation_time:.2f} effective draws per draw"
    )
    adaptation = BatchAdaptation()
    return Sampler(target, adaptation, adaptation.usual_brightness(target.geometry))


@doing("looking at the tails")
def heavier_than_proposals(target: BatchTarget, log_weight: np.ndarray) -> bool:
    """Return whether a weight far out in a parameter stands out from those of a pilot run.

    The pilot run seldom comes there. In its tails a posterior may have a share that draws show, and
    that none of some thousand draws has.

    Parameters
    ----------
    target : BatchTarget
    log_weight : ndarray, shape (K,)
        Of the pilot run.
    """
    places = []
    for v in places_far_out(target.geometry):
        with suppress(Exception):  # of a user's own type: no draw needs such points
            target.proposer.at(v[None])
            places.append(v)
    if not places:
        return False
    weights = target.weigh((SEED,), np.repeat(places, REPLICATES, axis=0)).log_weight
    far = np.logaddexp.reduce(weights.reshape(len(places), REPLICATES), axis=1)
    largest = np.logaddexp.reduce(log_weight) - np.log(len(log_weight) / LARGEST_WEIGHT)
    return bool(np.max(far) - np.log(REPLICATES) > largest)


def check_out_of_core(
    bound: object, brightness: object, proposal: str, kernel: str, transitions: int | None
) -> None:
    """Refuse settings that are not for rows out of core, before any work is done."""
    if brightness is not None or kernel not in ("auto", "joint"):
        asked = "brightness=" if brightness is not None else f"kernel={kernel!r}"
        raise ValueError(
            f"{asked} is for rows in memory: conditional moves and trajectories read rows at "
            "each step. Rows given by data= are sampled by joint moves, kernel='joint'"
        )
    if proposal not in ("auto", "independent"):
        raise ValueError(
            f"proposal={proposal!r} is for rows in memory: with data= proposals are independent"
        )
    if transitions is not None:
        raise ValueError(
            f"transitions={transitions} is for rows in memory: with data= draws are independent "
            "proposals that are accepted or not, one for each draw"
        )
    if not isinstance(bound, str | Mapping) and not is_for_joint_moves(bound):
        raise ValueError("data= needs bound=Taylor(), which bound='auto' takes")


def _bound_of(problem: Problem, asked: Bound | str) -> Bound:
    """Return the bound for one likelihood, if it can be used out of core."""
    own = Tangent() if isinstance(unweighted(problem.likelihood), Normal) else Taylor()
    bound: Any = own if isinstance(asked, str) else asked
    if not isinstance(bound, type(own)):
        others = " or Taylor()" if isinstance(own, Taylor) else ""
        raise UnsupportedModelError(
            f"with data= the bound of {problem.name!r} is 'auto'{others}, not {bound.name}"
        )
    return bound


def _check(weighed: Independence, names: str) -> None:
    if not weighed.heavy_tails and weighed.autocorrelation_time < LARGEST_TIME:
        return
    reason = f"{1.0 / weighed.autocorrelation_time:.3f} effective draws per draw"
    if weighed.heavy_tails:
        reason = "the weights of proposals have heavy tails"
    raise UnsupportedModelError(
        "rows given by data= are sampled by proposals from a normal distribution around the "
        f"posterior mode, and the posterior of {names} is too far from one: {reason}. "
        "Fewer coefficients, stronger priors or another parametrisation (fixed scales, centred "
        "effects of large groups) may help; more rows do. Or put the rows into the model, without "
        "data=, where Firefly has moves for any posterior"
    )
