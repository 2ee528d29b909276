"""Models that many tests build, and their posteriors."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats

from tests.support.data import log_sigmoid


def logistic_model(X, y, prior_sd=1.0):
    """Logistic regression with coefficients beta."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, prior_sd, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=pm.math.dot(X, beta), observed=y)
    return model


def half_line_model(X, y):
    """Logistic regression with an intercept s > 0, a transformed variable."""
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=X.shape[1])
        s = pm.HalfNormal("s", 1.0)
        pm.Bernoulli("y", logit_p=X @ b + s, observed=y)
    return model


def logistic_posterior(X, y, prior_sd):
    """Log density of a logistic regression with N(0, prior_sd) coefficients, for `quadrature`."""
    signed = X * (2.0 * np.asarray(y) - 1.0)[:, None]

    def log_density(points):
        return log_sigmoid(points @ signed.T).sum(axis=1) - 0.5 * np.sum(
            (points / prior_sd) ** 2, axis=1
        )

    return log_density


def student_t():
    """Noise with free location and scale, a transformed variable, and its log posterior."""
    y = 0.3 + 0.7 * np.random.default_rng(3).standard_t(3, size=25)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0, shape=1)
        sigma = pm.HalfNormal("sigma", 2.0)
        pm.StudentT("y", nu=4.0, mu=np.ones((25, 1)) @ mu, sigma=sigma, observed=y)

    def log_density(points):
        mu, log_sigma = points.T
        sigma = np.exp(log_sigma)
        value = stats.t.logpdf(y, 4.0, mu[:, None], sigma[:, None]).sum(axis=1)
        return value - 0.5 * (mu / 2.0) ** 2 - 0.5 * (sigma / 2.0) ** 2 + log_sigma

    return model, log_density


def softmax_model(X, y, k, reference=False):
    """Softmax regression with coefficients W, of all classes or all but the first."""
    with pm.Model() as model:
        W = pm.Normal("W", 0.0, 1.5, shape=(X.shape[1], k - reference))
        eta = pt.dot(X, W)
        if reference:
            eta = pt.concatenate([np.zeros((len(X), 1)), eta], axis=1)
        pm.Categorical("y", logit_p=eta, observed=y)
    return model


def smooth(x, y, m, kernel="Matern52", **settings):
    """Logistic regression on a smooth function of x."""
    with pm.Model() as model:
        scale = pm.InverseGamma("scale", 5.0, 5.0)
        covariance = getattr(pm.gp.cov, kernel)(1, ls=scale)
        basis = pm.gp.HSGP(m=[m], L=[3.0], cov_func=covariance, **settings)
        pm.Bernoulli("y", logit_p=basis.prior("f", X=x[:, None]), observed=y)
    return model


def smooth_rows(n):
    rng = np.random.default_rng(1)
    x = rng.uniform(-2.0, 2.0, n)
    return x, (rng.random(n) < np.exp(log_sigmoid(np.sin(2.0 * x) + 0.3))).astype(int)


def intercepts_model():
    """Logistic regression with an intercept for each of twenty groups, of one to six rows."""
    rng = np.random.default_rng(6)
    group = np.repeat(np.arange(20), rng.integers(1, 7, 20))
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("tau", 1.0)
        a = pm.Normal("a", mu, tau, shape=20)
        pm.Bernoulli("y", logit_p=a[group], observed=rng.integers(0, 2, len(group)))
    return model
