"""What likelihoods and bounds of your own are made of, and how steps come to know them."""

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.bounds import BOUNDS, Bound, ExpansionBound, Preparation, Problem, is_bound
from pymc_flymc.bounds.validity import check_bound
from pymc_flymc.errors import check, check_object
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.likelihoods.family import JointlySmoothFamily, SmoothFamily
from pymc_flymc.likelihoods.likelihood import (
    ExplicitLikelihood,
    JointlySmoothLikelihood,
    Likelihood,
    RowParameters,
    ScaledLikelihood,
    SmoothedLikelihood,
    SmoothLikelihood,
    is_likelihood,
)
from pymc_flymc.likelihoods.links import find_predictor
from pymc_flymc.regression.expansion import QuadraticStatistics, collapsed_quadratic
from pymc_flymc.regression.passes import iterate_rows

__all__ = [
    "AnchorPart",
    "Bound",
    "ExpansionBound",
    "ExplicitLikelihood",
    "JointlySmoothFamily",
    "JointlySmoothLikelihood",
    "Likelihood",
    "Preparation",
    "Problem",
    "QuadraticStatistics",
    "RowParameters",
    "ScaledLikelihood",
    "SmoothFamily",
    "SmoothLikelihood",
    "SmoothedLikelihood",
    "check_bound",
    "collapsed_quadratic",
    "find_predictor",
    "iterate_rows",
    "register_bound",
    "register_likelihood",
    "unregister_bound",
    "unregister_likelihood",
]


def register_likelihood(likelihood: Likelihood) -> None:
    """Let steps sample a further family of likelihoods.

    Parameters
    ----------
    likelihood : Likelihood
        Tried before all others on the observed variables that it matches. If it is a
        `SmoothLikelihood`, the Taylor bound is valid for it; otherwise register a bound that
        supports it, or give one to the step.

    Raises
    ------
    ValueError
        If it is not a likelihood, but a class, say, if its numbers may change, or if it has a
        `derivative_bound` and is no `SmoothLikelihood`.
    """
    expected = "an object with the methods of a likelihood"
    check_object("likelihood", likelihood, is_likelihood, expected)
    can_be_kept = type(likelihood).__hash__ is not None
    check(can_be_kept, "likelihood", "a frozen dataclass: @dataclass(frozen=True)", likelihood)
    whole = isinstance(likelihood, SmoothLikelihood) or not hasattr(likelihood, "derivative_bound")
    expected = "one with growth and log_concave if it has derivative_bound"
    check(whole, "likelihood", expected, likelihood)
    LIKELIHOODS.insert(0, likelihood)


def unregister_likelihood(likelihood: Likelihood) -> None:
    """Take back `register_likelihood` of the same object.

    Raises
    ------
    ValueError
        If it is not registered.
    """
    _remove(likelihood, LIKELIHOODS, "likelihood")


def register_bound(bound: Bound) -> None:
    """Let steps choose a further bound, for the likelihoods that it supports.

    Parameters
    ----------
    bound : Bound
        Taken for conditional moves where fewer rows are expected to be bright than under others.

    Raises
    ------
    ValueError
        If it is not a bound, but a class, say.
    """
    check_object("bound", bound, is_bound, "a bound")
    BOUNDS.insert(0, bound)


def unregister_bound(bound: Bound) -> None:
    """Take back `register_bound` of the same object.

    Raises
    ------
    ValueError
        If it is not registered.
    """
    _remove(bound, BOUNDS, "bound")


def _remove(given: object, registered: list, what: str) -> None:
    places = [i for i, each in enumerate(registered) if each is given]
    if not places:
        names = ", ".join(each.name for each in registered)
        raise ValueError(f"this {what} is not registered; those that are: {names}")
    del registered[places[0]]
