"""The three experiments: a model each, and the samplers that are compared on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from examples.paper.data import Data
from examples.paper.models import Model, logistic, robust, softmax
from pymc_flymc import (
    Bohning,
    FireflyHMC,
    FireflyMALA,
    FireflyMH,
    FireflySlice,
    ImplicitResampling,
    JaakkolaJordan,
    Tangent,
)

__all__ = ["EXPERIMENTS", "MOLECULES", "Experiment", "Line"]


@dataclass(frozen=True)
class Line:
    """A sampler: a line of the table.

    Attributes
    ----------
    key, label : str
    step : callable
        Builds the step method, within the model's context.
    tune, burn, draws : int
        Draws in which settings adapt; those that lead from the prior to the posterior, of the
        paper's algorithms only; and those that count.
    of_paper : bool
        Whether it is one of the paper's three algorithms, which start from the prior.
    gradient_kept : bool
        Whether queries are counted as if the gradient at a proposal's start were kept, as the paper
        has it: this package reads the bright rows again.
    """

    key: str
    label: str
    step: Callable[[], Any]
    tune: int
    burn: int
    draws: int
    of_paper: bool = False
    gradient_kept: bool = False


@dataclass(frozen=True)
class Experiment:
    """What the paper did on one data set.

    Attributes
    ----------
    name, title : str
    model : Callable
        From data to a `Model`.
    lines : tuple of Line
        Regular MCMC first.
    """

    name: str
    title: str
    model: Callable[[Data], Model]
    lines: tuple[Line, ...]


#: The paper's proposal probabilities of dark rows, untuned and tuned.
UNTUNED, TUNED = ImplicitResampling(q=0.1), ImplicitResampling(q=0.01)


def _walk(bound: Any, brightness: Any = None, proposal: Any = "isotropic") -> Callable[[], Any]:
    settings = dict(bound=bound, brightness=brightness, proposal=proposal)
    return lambda: FireflyMH(kernel="metropolis", transitions=1, **settings)


def _langevin(bound: Any, brightness: Any = None, metric: Any = "isotropic") -> Callable[[], Any]:
    return lambda: FireflyMALA(bound=bound, brightness=brightness, metric=metric, transitions=1)


def _slice(bound: Any, brightness: Any = None, direction: Any = "isotropic") -> Callable[[], Any]:
    settings = dict(bound=bound, brightness=brightness, direction=direction)
    return lambda: FireflySlice(transitions=1, **settings)


REGULAR, UNTUNED_LABEL, TUNED_LABEL = "Regular MCMC", "Untuned FlyMC", "MAP-tuned FlyMC"
REGULAR_STANDARDISED = "Regular MCMC, standardised"
OWN, STANDARDISED = "Slack and q by row", "Slack and q by row, standardised"


def _paper(key: str, label: str, step: Callable[[], Any], *lengths: int) -> Line:
    return Line(key, label, step, *lengths, of_paper=True)


def _own(key: str, label: str, step: Callable[[], Any], tune: int, draws: int) -> Line:
    return Line(key, label, step, tune, 0, draws)


def _as_they_come(hmc: tuple[int, int], mh: tuple[int, int]) -> tuple[Line, Line]:
    return (
        _own("hmc", "FireflyHMC()", FireflyHMC, *hmc),
        _own("mh", "FireflyMH()", FireflyMH, *mh),
    )


MNIST = Experiment(
    "mnist",
    "Random-walk Metropolis-Hastings, logistic regression",
    logistic,
    (
        _paper("regular", REGULAR, _walk(None), 1000, 3000, 15_000),
        _paper(
            "untuned",
            UNTUNED_LABEL,
            _walk(JaakkolaJordan(1.5, slack=0), UNTUNED),
            1000,
            5000,
            15_000,
        ),
        _paper("tuned", TUNED_LABEL, _walk(JaakkolaJordan(slack=0), TUNED), 3000, 8000, 80_000),
        _own("own", OWN, _walk(JaakkolaJordan()), 3000, 60_000),
        _own(
            "regular-standardised",
            REGULAR_STANDARDISED,
            _walk(None, None, "random_walk"),
            1000,
            8000,
        ),
        _own(
            "standardised", STANDARDISED, _walk(JaakkolaJordan(), None, "random_walk"), 3000, 30_000
        ),
        *_as_they_come((500, 1000), (500, 1000)),
    ),
)
CIFAR = Experiment(
    "cifar",
    "Langevin, softmax regression",
    softmax,
    tuple(
        replace(line, gradient_kept=True)
        for line in (
            _paper("regular", REGULAR, _langevin(None), 300, 700, 1500),
            _paper(
                "untuned",
                UNTUNED_LABEL,
                _langevin(Bohning(tuned=False, slack=0), UNTUNED),
                300,
                700,
                2000,
            ),
            _paper("tuned", TUNED_LABEL, _langevin(Bohning(slack=0), TUNED), 1000, 10_000, 8000),
            _own("own", OWN, _langevin("auto"), 1000, 5000),
            _own(
                "regular-standardised",
                REGULAR_STANDARDISED,
                _langevin(None, None, "auto"),
                200,
                500,
            ),
            _own("standardised", STANDARDISED, _langevin("auto", None, "auto"), 800, 2000),
        )
    )
    + _as_they_come((400, 500), (400, 500)),
)
MOLECULES = Experiment(
    "molecules",
    "Slices along random directions, Student t regression",
    robust,
    (
        _paper("regular", REGULAR, _slice(None), 100, 700, 2500),
        _paper("untuned", UNTUNED_LABEL, _slice(Tangent(0.0, slack=0), UNTUNED), 100, 700, 3000),
        _paper("tuned", TUNED_LABEL, _slice(Tangent(slack=0), TUNED), 2000, 5000, 30_000),
        _own("own", OWN, _slice(Tangent()), 2000, 30_000),
        _own("regular-standardised", REGULAR_STANDARDISED, _slice(None, None, "random"), 100, 1000),
        _own("standardised", STANDARDISED, _slice(Tangent(), None, "random"), 1000, 15_000),
        *_as_they_come((500, 2000), (500, 2000)),
    ),
)
EXPERIMENTS = {experiment.name: experiment for experiment in (MNIST, CIFAR, MOLECULES)}
