"""The three experiments: a model each, and the samplers that are compared on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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

__all__ = ["EXPERIMENTS", "Experiment", "Line"]


@dataclass(frozen=True)
class Line:
    """A sampler: a line of the table.

    Attributes
    ----------
    key, label : str
    step : callable
        Builds the step method, within the model's context.
    tune, draws : int
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


OWN = "same kernel, slack and q by row"
WHITENED = "the same, whitened"
REGULAR_WHITENED = "Regular MCMC, whitened"

MNIST = Experiment(
    "mnist",
    "MNIST 7 and 9, logistic regression, random-walk Metropolis-Hastings",
    logistic,
    (
        Line("regular", "Regular MCMC", _walk(None), 3000, 10_000, True),
        Line(
            "untuned",
            "Untuned FlyMC",
            _walk(JaakkolaJordan(1.5, slack=0), UNTUNED),
            4000,
            10_000,
            True,
        ),
        Line(
            "tuned", "MAP-tuned FlyMC", _walk(JaakkolaJordan(slack=0), TUNED), 10_000, 60_000, True
        ),
        Line("regular-whitened", REGULAR_WHITENED, _walk(None, None, "random_walk"), 2000, 8000),
        Line("own", OWN, _walk(JaakkolaJordan()), 8000, 40_000),
        Line("whitened", WHITENED, _walk(JaakkolaJordan(), None, "random_walk"), 5000, 30_000),
        Line("hmc", "FireflyHMC()", FireflyHMC, 500, 1000),
        Line("mh", "FireflyMH()", FireflyMH, 500, 2000),
    ),
)
CIFAR = Experiment(
    "cifar",
    "three classes of CIFAR-10, softmax regression, Langevin",
    softmax,
    (
        Line("regular", "Regular MCMC", _langevin(None), 1000, 4000, True, True),
        Line(
            "untuned",
            "Untuned FlyMC",
            _langevin(Bohning(tuned=False, slack=0), UNTUNED),
            1500,
            4500,
            True,
            True,
        ),
        Line(
            "tuned", "MAP-tuned FlyMC", _langevin(Bohning(slack=0), TUNED), 8000, 9000, True, True
        ),
        Line(
            "regular-whitened",
            REGULAR_WHITENED,
            _langevin(None, None, "auto"),
            500,
            1000,
            False,
            True,
        ),
        Line("own", OWN, _langevin("auto"), 4000, 9000, False, True),
        Line("whitened", WHITENED, _langevin("auto", None, "auto"), 1500, 4000, False, True),
        Line("hmc", "FireflyHMC()", FireflyHMC, 400, 500),
        Line("mh", "FireflyMH()", FireflyMH, 400, 500),
    ),
)
MOLECULES = Experiment(
    "molecules",
    "molecules, Student t regression, slices along random directions",
    robust,
    (
        Line("regular", "Regular MCMC", _slice(None), 1000, 4000, True),
        Line("untuned", "Untuned FlyMC", _slice(Tangent(0.0, slack=0), UNTUNED), 1000, 5000, True),
        Line("tuned", "MAP-tuned FlyMC", _slice(Tangent(slack=0), TUNED), 10_000, 40_000, True),
        Line("regular-whitened", REGULAR_WHITENED, _slice(None, None, "random"), 500, 2000),
        Line("own", OWN, _slice(Tangent()), 5000, 40_000),
        Line("whitened", WHITENED, _slice(Tangent(), None, "random"), 3000, 20_000),
        Line("hmc", "FireflyHMC()", FireflyHMC, 500, 2000),
        Line("mh", "FireflyMH()", FireflyMH, 500, 2000),
    ),
)
EXPERIMENTS = {experiment.name: experiment for experiment in (MNIST, CIFAR, MOLECULES)}
