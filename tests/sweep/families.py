"""How models write the families: one entry for each way, by class of the family.

A family that is registered needs an entry here, and is then in the sweep with every form of model,
bound and kernel that it allows. One that the package does not have is registered for its models.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_flymc import likelihoods as families

__all__ = ["FAMILIES", "LONGEST", "Written", "positive"]

#: Rows for which the entries have constants.
LONGEST = 60
exp, sigmoid = pm.math.exp, pm.math.sigmoid


@dataclass(frozen=True)
class LookedUp:
    """A parameter that rows may look up as it is, `p[group]`, without a link.

    Attributes
    ----------
    prior : callable
        From a name, a shape and whether ends of the range are likely to the variable.
    inverse : callable
        From real numbers to the range of the parameter.
    """

    prior: Callable[..., Any]
    inverse: Callable[[Any], Any]


@dataclass(frozen=True)
class Written:
    """One way in which a model writes a family.

    Attributes
    ----------
    dist : callable
        From the predictor eta, shape (N,), a second parameter and the constants of rows to an
        unnamed distribution. The second parameter is a shape, a scale, or what else there is.
    second : float, optional
        Value of the second parameter where the model knows it; without one it is always sampled.
    free : callable, optional
        From a name to the prior of the second parameter.
    link : callable, optional
        Inverse link by which the second parameter may depend on a predictor of its own.
    rows : mapping
        Constants of rows by name, shape (LONGEST,).
    end : float, optional
        An end of the range of the second parameter: data simulated there hardly limit it.
    is_location_scale : bool
        Whether the predictor is the location of outcomes, and the second parameter their scale.
    is_circular : bool
        Whether outcomes are angles, to which predictors a turn apart are the same.
    looked_up : LookedUp, optional
        What stands in the place of eta, in forms of models that look it up.
    is_cut : bool
        Whether zeros are cut off by ``pm.Truncated``, whose density has no digits left where nearly
        all is cut off.
    """

    dist: Callable[[Any, Any, Mapping[str, Any]], Any]
    second: float | None = None
    free: Callable[[str], Any] | None = None
    link: Callable[[Any], Any] | None = None
    rows: Mapping[str, np.ndarray] = field(default_factory=dict)
    end: float | None = None
    is_location_scale: bool = False
    is_circular: bool = False
    looked_up: LookedUp | None = None
    is_cut: bool = False


def positive(name: str, spread: float = 0.5) -> Any:
    """A prior of scales and shapes, with a spread of their logarithms."""
    return pm.LogNormal(name, 0.3, spread)


def _share(name: str) -> Any:
    return pm.Beta(name, 2.0, 2.0)


def _number(name: str) -> Any:
    return pm.Normal(name, 0.0, 1.0)


def _rates(name: str, shape: int, at_ends: bool) -> Any:
    return pm.Gamma(name, 0.5 if at_ends else 2.0, 0.5 if at_ends else 1.5, shape=shape)


def _probabilities(name: str, shape: int, at_ends: bool) -> Any:
    return pm.Beta(name, 0.4 if at_ends else 2.0, 0.4 if at_ends else 1.5, shape=shape)


RATES, PROBABILITIES = LookedUp(_rates, exp), LookedUp(_probabilities, sigmoid)
_rng = np.random.default_rng(0)
TRIALS = {"n": _rng.integers(1, 5, LONGEST)}
EXPOSURE = {"exposure": np.round(_rng.uniform(0.5, 2.0, LONGEST), 2)}
#: An alpha, a nu: with as large ones counts are as Poisson variables, and tails as normal ones.
MANY = 1e6
#: Where durations end that are not known, and where those that are short do.
END, SHORT = 2.0, 0.4


def _truncated(dist: Any) -> Any:
    return pm.Truncated.dist(dist, lower=1)


def _censored(dist: Any, lower: float | None = None) -> Any:
    return pm.Censored.dist(dist, lower=lower, upper=END)


def _classes(eta: Any, second: Any) -> Any:
    """Predictors of three classes, one of them the reference."""
    return pt.stack([pt.zeros_like(eta), eta, second + pt.zeros_like(eta)], axis=1)


def _negative_binomial(mu: Any, alpha: Any) -> Any:
    return pm.NegativeBinomial.dist(mu=mu, alpha=alpha)


FAMILIES: dict[type, dict[str, Written]] = {
    families.BernoulliLogit: {
        "bernoulli-logit": Written(lambda eta, _, rows: pm.Bernoulli.dist(logit_p=eta), 0.0),
        "bernoulli-looked-up": Written(
            lambda p, _, rows: pm.Bernoulli.dist(p=p), 0.0, looked_up=PROBABILITIES
        ),
    },
    families.BernoulliProbit: {
        "bernoulli-probit": Written(
            lambda eta, _, rows: pm.Bernoulli.dist(p=pm.math.invprobit(eta)), 0.0
        ),
    },
    families.BernoulliCloglog: {
        "bernoulli-cloglog": Written(
            lambda eta, _, rows: pm.Bernoulli.dist(p=1.0 - exp(-exp(eta))), 0.0
        ),
    },
    families.BinomialLogit: {
        "binomial-logit": Written(
            lambda eta, _, rows: pm.Binomial.dist(n=rows["n"], logit_p=eta), 0.0, rows=TRIALS
        ),
        "binomial-looked-up": Written(
            lambda p, _, rows: pm.Binomial.dist(n=rows["n"], p=p),
            0.0,
            rows=TRIALS,
            looked_up=PROBABILITIES,
        ),
    },
    families.Geometric: {
        "geometric": Written(lambda eta, _, rows: pm.Geometric.dist(p=sigmoid(eta)), 0.0),
        "geometric-looked-up": Written(
            lambda p, _, rows: pm.Geometric.dist(p=p), 0.0, looked_up=PROBABILITIES
        ),
    },
    families.NegativeBinomialLog: {
        "negative-binomial": Written(
            lambda eta, alpha, rows: _negative_binomial(exp(eta), alpha), 1.5
        ),
        "negative-binomial-looked-up": Written(
            lambda mu, alpha, rows: _negative_binomial(mu, alpha), 1.5, looked_up=RATES
        ),
    },
    families.NegativeBinomialFree: {
        "negative-binomial-free": Written(
            lambda eta, alpha, rows: _negative_binomial(exp(eta), alpha), None, positive, end=MANY
        ),
        "negative-binomial-free-looked-up": Written(
            lambda mu, alpha, rows: _negative_binomial(mu, alpha), None, positive, looked_up=RATES
        ),
    },
    families.NegativeBinomialSmooth: {
        "negative-binomial-of-shapes": Written(
            lambda eta, tau, rows: _negative_binomial(exp(eta), exp(tau * rows["slope"])),
            None,
            _number,
            rows={"slope": np.round(_rng.uniform(-1.0, 1.0, LONGEST), 2)},
        ),
    },
    families.PoissonLog: {
        "poisson": Written(
            lambda eta, _, rows: pm.Poisson.dist(mu=rows["exposure"] * exp(eta)),
            0.0,
            rows=EXPOSURE,
        ),
        "poisson-looked-up": Written(
            lambda mu, _, rows: pm.Poisson.dist(mu=rows["exposure"] * mu),
            0.0,
            rows=EXPOSURE,
            looked_up=RATES,
        ),
    },
    families.ZeroInflatedPoisson: {
        "zero-inflated-poisson": Written(
            lambda eta, psi, rows: pm.ZeroInflatedPoisson.dist(psi=psi, mu=exp(eta)),
            0.6,
            _share,
            sigmoid,
            end=1.0,
        ),
        "zero-inflated-poisson-looked-up": Written(
            lambda mu, psi, rows: pm.ZeroInflatedPoisson.dist(psi=psi, mu=mu),
            0.6,
            _share,
            looked_up=RATES,
        ),
    },
    families.ZeroInflatedTrials: {
        "zero-inflated-binomial": Written(
            lambda eta, psi, rows: pm.ZeroInflatedBinomial.dist(
                psi=psi, n=rows["n"], p=sigmoid(eta)
            ),
            0.7,
            _share,
            sigmoid,
            TRIALS,
            end=1.0,
        ),
        "zero-inflated-negative-binomial": Written(
            lambda eta, psi, rows: pm.ZeroInflatedNegativeBinomial.dist(
                psi=psi, mu=exp(eta), alpha=1.5
            ),
            0.7,
            _share,
            sigmoid,
            end=1.0,
        ),
    },
    families.ZeroInflatedNegativeBinomialFree: {
        "zero-inflated-negative-binomial-free": Written(
            lambda eta, alpha, rows: pm.ZeroInflatedNegativeBinomial.dist(
                psi=0.7, mu=exp(eta), alpha=alpha
            ),
            None,
            positive,
            exp,
            end=MANY,
        ),
    },
    families.ZeroTruncatedPoisson: {
        "zero-truncated-poisson": Written(
            lambda eta, _, rows: _truncated(pm.Poisson.dist(mu=exp(eta))), 0.0
        ),
        "zero-truncated-poisson-looked-up": Written(
            lambda mu, _, rows: _truncated(pm.Poisson.dist(mu=mu)),
            0.0,
            looked_up=RATES,
            is_cut=True,
        ),
        "hurdle-poisson": Written(
            lambda eta, psi, rows: pm.HurdlePoisson.dist(psi=psi, mu=exp(eta)),
            0.7,
            _share,
            sigmoid,
            end=1.0,
        ),
    },
    families.ZeroTruncatedNegativeBinomial: {
        "zero-truncated-negative-binomial": Written(
            lambda eta, alpha, rows: _truncated(_negative_binomial(exp(eta), alpha)), 1.5
        ),
        "hurdle-negative-binomial": Written(
            lambda eta, psi, rows: pm.HurdleNegativeBinomial.dist(psi=psi, mu=exp(eta), alpha=1.5),
            0.7,
            _share,
            sigmoid,
            end=1.0,
        ),
    },
    families.ZeroTruncatedNegativeBinomialFree: {
        "zero-truncated-negative-binomial-free": Written(
            lambda eta, alpha, rows: _truncated(_negative_binomial(exp(eta), alpha)),
            None,
            positive,
            exp,
            end=MANY,
        ),
    },
    families.Durations: {
        "exponential": Written(lambda eta, _, rows: pm.Exponential.dist(scale=exp(eta)), 0.0),
        "exponential-looked-up": Written(
            lambda rate, _, rows: pm.Exponential.dist(rate), 0.0, looked_up=RATES
        ),
        "gamma": Written(
            lambda eta, alpha, rows: pm.Gamma.dist(alpha=alpha, beta=alpha / exp(eta)), 2.0
        ),
        "weibull-censored": Written(
            lambda eta, alpha, rows: _censored(pm.Weibull.dist(alpha, exp(eta))), 1.7
        ),
        "exponential-censored-twice": Written(
            lambda eta, _, rows: _censored(pm.Exponential.dist(scale=exp(eta)), SHORT), 0.0
        ),
    },
    families.WeibullFree: {
        "weibull-free-censored-twice": Written(
            lambda eta, alpha, rows: _censored(pm.Weibull.dist(alpha, exp(eta)), SHORT),
            None,
            positive,
        ),
        "weibull-free": Written(
            lambda eta, alpha, rows: pm.Weibull.dist(alpha, exp(eta)), None, positive
        ),
        "weibull-free-looked-up": Written(
            lambda beta, alpha, rows: pm.Weibull.dist(alpha, beta), None, positive, looked_up=RATES
        ),
        "weibull-free-censored": Written(
            lambda eta, alpha, rows: _censored(pm.Weibull.dist(alpha, exp(eta))), None, positive
        ),
    },
    families.GammaFree: {
        "gamma-free": Written(
            lambda eta, alpha, rows: pm.Gamma.dist(alpha=alpha, beta=alpha / exp(eta)),
            None,
            positive,
        ),
        "gamma-free-looked-up": Written(
            lambda mu, alpha, rows: pm.Gamma.dist(alpha=alpha, beta=alpha / mu),
            None,
            positive,
            looked_up=RATES,
        ),
    },
    families.Beta: {
        "beta": Written(
            lambda eta, nu, rows: pm.Beta.dist(mu=sigmoid(eta), nu=nu), 4.0, positive, exp
        ),
        "beta-looked-up": Written(
            lambda mu, nu, rows: pm.Beta.dist(mu=mu, nu=nu), 4.0, positive, looked_up=PROBABILITIES
        ),
    },
    families.BetaBinomial: {
        "beta-binomial": Written(
            lambda eta, nu, rows: pm.BetaBinomial.dist(
                n=rows["n"], alpha=nu * sigmoid(eta), beta=nu * sigmoid(-eta)
            ),
            4.0,
            positive,
            exp,
            TRIALS,
            end=MANY,
        ),
    },
    families.OrderedLogit: {
        "ordered-logit": Written(
            lambda eta, cut, rows: pm.OrderedLogistic.dist(
                eta=eta, cutpoints=pt.stack([cut, cut + 1.3])
            ),
            -0.5,
            _number,
        ),
    },
    families.Softmax: {
        "softmax": Written(
            lambda eta, second, rows: pm.Categorical.dist(logit_p=_classes(eta, second)),
            0.4,
            _number,
            lambda eta: eta,
        ),
    },
    families.Multinomial: {
        "multinomial": Written(
            lambda eta, second, rows: pm.Multinomial.dist(
                n=rows["n"], p=pm.math.softmax(_classes(eta, second), axis=-1)
            ),
            0.4,
            _number,
            lambda eta: eta,
            TRIALS,
        ),
    },
    families.Normal: {
        "normal": Written(
            lambda eta, sigma, rows: pm.Normal.dist(eta, sigma),
            0.8,
            positive,
            is_location_scale=True,
        ),
        "log-normal": Written(
            lambda eta, sigma, rows: pm.LogNormal.dist(eta, sigma), 0.8, positive
        ),
    },
    families.CensoredNormal: {
        "censored-normal": Written(
            lambda eta, sigma, rows: _censored(pm.Normal.dist(eta, sigma), -SHORT), 0.8, positive
        ),
        "censored-log-normal": Written(
            lambda eta, sigma, rows: _censored(pm.LogNormal.dist(eta, sigma)), 0.8, positive
        ),
    },
    families.StudentT: {
        "student-t": Written(
            lambda eta, sigma, rows: pm.StudentT.dist(nu=3.0, mu=eta, sigma=sigma),
            0.8,
            positive,
            is_location_scale=True,
        ),
        "student-t-of-free-nu": Written(
            lambda eta, nu, rows: pm.StudentT.dist(nu=nu, mu=eta, sigma=0.8),
            None,
            positive,
            end=MANY,
        ),
        "cauchy": Written(
            lambda eta, beta, rows: pm.Cauchy.dist(eta, beta), 0.8, positive, is_location_scale=True
        ),
    },
    families.Logistic: {
        "logistic": Written(
            lambda eta, s, rows: pm.Logistic.dist(eta, s), 0.8, positive, is_location_scale=True
        ),
    },
    families.AsymmetricLaplace: {
        "laplace": Written(
            lambda eta, b, rows: pm.Laplace.dist(eta, b), 0.8, positive, is_location_scale=True
        ),
        "asymmetric-laplace": Written(
            lambda eta, b, rows: pm.AsymmetricLaplace.dist(q=0.3, mu=eta, b=b),
            0.8,
            positive,
            is_location_scale=True,
        ),
    },
    families.NormalScales: {
        "normal-of-scales": Written(
            lambda eta, tau, rows: pm.Normal.dist(eta, exp(tau * rows["slope"])),
            None,
            _number,
            rows={"slope": np.round(_rng.uniform(-1.0, 1.0, LONGEST), 2)},
        ),
        "normal-scales-looked-up": Written(
            lambda sigma, mu, rows: pm.Normal.dist(mu, sigma), 0.3, _number, looked_up=RATES
        ),
        "normal-with-errors": Written(
            lambda eta, sigma, rows: pm.Normal.dist(
                eta, pm.math.sqrt(rows["error"] ** 2 + sigma**2)
            ),
            None,
            positive,
            rows={"error": np.round(_rng.uniform(0.2, 1.0, LONGEST), 2)},
            end=0.0,
        ),
    },
    families.StudentTScales: {
        "student-t-scales": Written(
            lambda eta, tau, rows: pm.StudentT.dist(nu=3.0, mu=eta, sigma=exp(tau * rows["slope"])),
            None,
            _number,
            rows={"slope": np.round(_rng.uniform(-1.0, 1.0, LONGEST), 2)},
        ),
        "student-t-scales-looked-up": Written(
            lambda sigma, mu, rows: pm.StudentT.dist(nu=3.0, mu=mu, sigma=sigma),
            0.3,
            _number,
            looked_up=RATES,
        ),
        "student-t-scales-with-errors": Written(
            lambda eta, sigma, rows: pm.StudentT.dist(
                nu=3.0, mu=eta, sigma=pm.math.sqrt(rows["error"] ** 2 + sigma**2)
            ),
            None,
            positive,
            rows={"error": np.round(_rng.uniform(0.2, 1.0, LONGEST), 2)},
            end=0.0,
        ),
    },
    families.TruncatedNormal: {
        "truncated-normal": Written(
            lambda eta, sigma, rows: pm.TruncatedNormal.dist(eta, sigma, lower=-0.8),
            0.8,
            positive,
        ),
    },
    families.SkewNormal: {
        "skew-normal": Written(
            lambda eta, sigma, rows: pm.SkewNormal.dist(mu=eta, sigma=sigma, alpha=1.5),
            0.8,
            positive,
            is_location_scale=True,
        ),
        "skew-normal-of-free-skewness": Written(
            lambda eta, alpha, rows: pm.SkewNormal.dist(mu=eta, sigma=0.8, alpha=alpha),
            None,
            _number,
            end=0.0,
        ),
    },
    families.VonMises: {
        "von-mises": Written(
            lambda eta, _, rows: pm.VonMises.dist(eta, 0.8), 0.0, is_circular=True
        ),
    },
}
