"""Readings made wrong in one thing each: the comparison with the model alone refuses them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import UnsupportedModelError, weighted
from pymc_flymc.agreement.rounding import RoundedFunction
from pymc_flymc.likelihoods import BernoulliCloglog, BernoulliProbit, StudentTScales
from pymc_flymc.reading.model import read_model
from tests.support.readings import compare

N = 60
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 3))
GROUP = RNG.integers(0, 6, N)
OFFSET = RNG.normal(size=N)
BINARY = RNG.integers(0, 2, N)
COUNTS = RNG.poisson(2.0, N)
REAL = RNG.standard_t(4, N)
DURATIONS = np.minimum(RNG.weibull(1.5, N), 1.2)
WEIGHTS = RNG.integers(1, 4, N)
exp = pm.math.exp


def effects():
    return X @ pm.Normal("b", [0.1, 0.2, 0.3], 1.0) + pm.Normal("a", 0.0, 1.0, shape=6)[GROUP]


def logistic():
    s = pm.HalfNormal("s", 1.0)
    pm.Potential("p", -0.3 * s**2)
    pm.Normal("z", s, 1.0, observed=np.array([0.3, 1.2]))
    pm.Bernoulli("y", logit_p=effects() + s + OFFSET, observed=BINARY)


def poisson():
    pm.Poisson("y", mu=exp(OFFSET) * exp(effects()), observed=COUNTS)


def noise():
    s, nu = pm.HalfNormal("s", 1.0), pm.Gamma("nu", 4.0, 1.0)
    pm.StudentT("y", nu=nu, mu=effects(), sigma=s, observed=REAL)


def quantile():
    pm.AsymmetricLaplace("y", mu=effects(), q=0.7, b=pm.HalfNormal("s", 1.0), observed=REAL)


def counted():
    pm.Binomial("y", n=COUNTS + 2, logit_p=effects(), observed=COUNTS)


def overdispersed():
    pm.NegativeBinomial("y", mu=exp(effects()), alpha=pm.HalfNormal("s", 1.0), observed=COUNTS)


def with_weights():
    weighted("y", pm.Bernoulli.dist(logit_p=effects()), weights=WEIGHTS, observed=BINARY)


def weighted_noise():
    s = pm.HalfNormal("s", 1.0)
    weighted("y", pm.StudentT.dist(nu=4.0, mu=effects(), sigma=s), weights=WEIGHTS, observed=REAL)


def censored():
    distribution = pm.Weibull.dist(pm.HalfNormal("s", 1.0), exp(effects()))
    pm.Censored("y", distribution, lower=None, upper=1.2, observed=DURATIONS)


def tobit():
    distribution = pm.Normal.dist(effects(), pm.HalfNormal("s", 1.0))
    pm.Censored("y", distribution, lower=-0.5, upper=1.0, observed=np.clip(REAL, -0.5, 1.0))


def of_scales():
    scale = pm.math.sqrt(OFFSET**2 + exp(X[:, 0] * pm.Normal("g")) ** 2)
    pm.Normal("y", X @ pm.Normal("b", 0.0, 1.0, shape=3), scale, observed=REAL)


def of_tails():
    scale = pm.math.sqrt(OFFSET**2 + exp(X[:, 0] * pm.Normal("g")) ** 2)
    b = pm.Normal("b", 0.0, 1.0, shape=3)
    pm.StudentT("y", nu=3.0, mu=X @ b, sigma=scale, observed=REAL)


def truncated():
    scale = pm.HalfNormal("s", 1.0)
    pm.TruncatedNormal("y", effects(), scale, lower=-0.1, observed=np.abs(REAL))


def skewed():
    mean = X @ pm.Normal("b", 0.0, 1.0, shape=3)
    pm.SkewNormal("y", mu=mean, sigma=pm.HalfNormal("s"), alpha=pm.Normal("k"), observed=REAL)


def hurdle():
    psi = pm.Beta("psi", 1.0, 1.0)
    pm.HurdlePoisson("y", psi=psi, mu=exp(effects()), observed=COUNTS)


def hurdles():
    psi = pm.math.sigmoid(X[:, 0] * pm.Normal("d"))
    pm.HurdlePoisson("y", psi=psi, mu=exp(effects()), observed=COUNTS)


def inflated():
    psi = pm.Beta("psi", 1.0, 1.0)
    pm.ZeroInflatedPoisson("y", psi=psi, mu=exp(effects()), observed=COUNTS)


def tobit_of_a_table():
    upper = np.array([0.5, 1.0, 1.5])
    mean = pm.Normal("a", shape=20)[:, None] + pm.Normal("b", shape=3)
    values = np.clip(REAL.reshape(20, 3), -1.0, upper)
    pm.Censored(
        "y", pm.Normal.dist(mean, 1.0), lower=-np.ones((20, 1)), upper=upper, observed=values
    )


def ordered():
    c = pm.Normal("c", [-1, 1], transform=pm.distributions.transforms.ordered)
    pm.OrderedLogistic("y", eta=X @ pm.Normal("b", shape=3), cutpoints=c, observed=COUNTS % 3)


def classes():
    pm.Categorical("y", logit_p=X @ pm.Normal("b", 0, 1, shape=(3, 3)), observed=COUNTS % 3)


def classes_of_all():
    pm.Categorical("y", logit_p=pm.Normal("b", 0, 1, shape=(1, 3)), observed=COUNTS % 3)


def counted_classes():
    counts = np.stack([COUNTS, COUNTS[::-1], np.ones(N, int)], axis=1)
    p = pm.math.softmax(X @ pm.Normal("b", 0, 1, shape=(3, 3)), axis=-1)
    pm.Multinomial("y", n=counts.sum(axis=1), p=p, observed=counts)


def several():
    a = pm.Normal("a", 0.0, 1.0, shape=3)
    pm.Bernoulli("y", logit_p=X @ a, observed=BINARY)
    pm.Normal("x", X @ a, pm.HalfNormal("s", 1.0), observed=REAL)


@cache
def model_of(observe):
    """Return a model with what is read of it."""
    with pm.Model() as model:
        observe()
    return model, read_model(model)


def changed(reading, i=0, **fields):
    """Change fields of a regression, or of its design."""
    regressions = list(reading.regressions)
    own = {k: fields.pop(k) for k in ("y", "likelihood") if k in fields}
    design = replace(regressions[i].design, **fields)
    regressions[i] = replace(regressions[i], design=design, **own)
    return replace(reading, regressions=tuple(regressions))


def with_coefficients(change, i=0):
    def mutant(reading, model):
        w = list(reading.coefficients)
        w[i] = change(w[i])
        return replace(reading, coefficients=tuple(w))

    return mutant


def with_rest(change):
    def mutant(reading, model):
        return replace(reading, prior_logp=change(reading.prior_logp, model))

    return mutant


def with_y(change, i=0):
    return lambda reading, model: changed(reading, i, y=change(reading.regressions[i].y.copy()))


def with_design(**changes):
    def mutant(reading, model):
        design = reading.regressions[0].design
        return changed(reading, **{k: f(getattr(design, k)) for k, f in changes.items()})

    return mutant


def with_likelihood(likelihood):
    return lambda reading, model: changed(reading, likelihood=likelihood)


def own_logp(model, *names):
    return sum(v.sum() for v in model.logp(vars=[model[name] for name in names], sum=False))


def one_more(y, row=7, column=None):
    if column is None:
        y[row] += 1
    else:
        y[row, column] += 1
    return y


def flip(y, row=7):
    y[row] = 1 - y[row]
    return y


def regrouped(sparse):
    codes = sparse.codes.copy()
    codes[11] = (codes[11] + 1) % 6
    return replace(sparse, codes=codes)


def without_jacobian(rest, model):
    terms = [v.sum() for v in model.logp(jacobian=False, sum=False)]
    rows = model.basic_RVs.index(model["y"])
    return pt.add(*(v for i, v in enumerate(terms) if i != rows))


def scaled(rows):
    factors = np.ones((N, 1))
    factors[3] = 1.0 + 1e-8
    return rows * factors


def swapped(w, i, j):
    order = np.arange(w.type.shape[0])
    order[[i, j]] = j, i
    return w[order]


MUTANTS = {
    "sign of a coefficient": (logistic, with_coefficients(lambda w: pt.set_subtensor(w[0], -w[0]))),
    "swapped coefficients": (logistic, with_coefficients(lambda w: swapped(w, 0, 1))),
    "no intercept": (logistic, with_coefficients(lambda w: pt.set_subtensor(w[3], 0.0 * w[3]))),
    "no offset": (logistic, with_design(offset=lambda offset: np.empty((0, 1)))),
    "sign of the offset": (logistic, with_design(offset=np.negative)),
    "no exposure": (poisson, with_design(offset=lambda offset: np.empty((0, 1)))),
    "offset of one row": (poisson, with_design(offset=lambda x: one_more(x.copy()))),
    "a row shifted": (logistic, with_design(X=lambda X: np.roll(X, 1, axis=0))),
    "outcomes shifted": (logistic, with_y(lambda y: np.roll(y, 1))),
    "one outcome": (logistic, with_y(flip)),
    "one count": (poisson, with_y(one_more)),
    "a column left out": (logistic, with_design(X=lambda X: X * [1, 1, 0])),
    "single precision": (logistic, with_design(X=lambda X: X.astype(np.float32))),
    "a hundred millionth of a row": (logistic, with_design(X=scaled)),
    "another group": (logistic, with_design(sparse=regrouped)),
    "groups shifted": (poisson, with_coefficients(lambda w: pt.roll(w, 1))),
    "probit for logit": (logistic, with_likelihood(BernoulliProbit())),
    "cloglog for logit": (logistic, with_likelihood(BernoulliCloglog())),
    "no Jacobian": (logistic, with_rest(without_jacobian)),
    "prior twice": (logistic, with_rest(lambda rest, m: rest + own_logp(m, "b"))),
    "prior left out": (logistic, with_rest(lambda rest, m: rest - own_logp(m, "a"))),
    "potential left out": (logistic, with_rest(lambda rest, m: rest - own_logp(m, "p"))),
    "sign of a potential": (logistic, with_rest(lambda rest, m: rest - 2 * own_logp(m, "p"))),
    "small observed left out": (logistic, with_rest(lambda rest, m: rest - own_logp(m, "z"))),
    "scale of a nuisance": (noise, with_coefficients(lambda w: pt.set_subtensor(w[-1], w[-1] / 2))),
    "swapped nuisances": (noise, with_coefficients(lambda w: swapped(w, -1, -2))),
    "sign of residuals": (quantile, with_y(np.negative)),
    "a trial more": (counted, with_y(lambda y: one_more(y, column=1))),
    "a success more": (counted, with_y(lambda y: one_more(y, column=0))),
    "shape for its inverse": (
        overdispersed,
        with_coefficients(lambda w: pt.set_subtensor(w[-1], -w[-1])),
    ),
    "no weights": (with_weights, with_y(lambda y: y / y[:, 1:])),
    "squared weights": (with_weights, with_y(lambda y: y * y[:, 1:])),
    "one weight": (weighted_noise, with_y(lambda y: one_more(y, column=1))),
    "no row is censored": (censored, with_y(lambda y: y * [1, 0])),
    "a limit for the other": (tobit, with_y(lambda y: y * [1, -1])),
    "a row at its limit": (tobit, with_y(lambda y: flip(y, (y[:, 0].argmin(), 0)))),
    "rest of seen rows left out": (
        tobit,
        lambda reading, model: replace(
            reading, prior_logp=own_logp(model, "b", "a", "s") + model.rvs_to_values[model["s"]]
        ),
    ),
    "rest of rows left out": (
        censored,
        lambda reading, model: replace(
            reading, prior_logp=own_logp(model, "b", "a", "s") + model.rvs_to_values[model["s"]]
        ),
    ),
    "a standard error": (of_scales, with_y(lambda y: one_more(y, column=1))),
    "no standard errors": (of_scales, with_y(lambda y: y * [1, 0])),
    "of scales for means": (of_scales, with_coefficients(lambda w: swapped(w, 0, 7))),
    "other degrees of freedom": (of_tails, with_likelihood(StudentTScales(nu=3.0 + 1e-6))),
    "another error in tails": (of_tails, with_y(lambda y: one_more(y, column=1))),
    "tails for means": (of_tails, with_coefficients(lambda w: swapped(w, 0, 7))),
    "truncated from above": (truncated, with_y(lambda y: y * [1, -1])),
    "distance from the limit": (truncated, with_y(lambda y: one_more(y, column=0))),
    "skewed the other way": (
        skewed,
        with_coefficients(lambda w: pt.set_subtensor(w[4:], -w[4:])),
    ),
    "hurdle the other way": (
        hurdle,
        with_rest(lambda rest, m: rest + 5 * m.rvs_to_values[m["psi"]]),
    ),
    "zeros the other way": (hurdles, with_y(lambda y: 1 - y, 1)),
    "values of other rows": (hurdles, with_y(lambda y: np.roll(y, 1), 0)),
    "a count above zero": (inflated, with_y(lambda y: one_more(y, y.argmax()))),
    "a limit of a column": (tobit_of_a_table, with_y(lambda y: flip(y, (y[:, 0].argmin(), 1)))),
    "a cutpoint": (ordered, with_coefficients(lambda w: pt.set_subtensor(w[-1], 1.01 * w[-1]))),
    "levels of a row": (ordered, with_y(flip)),
    "between cutpoints": (
        ordered,
        with_rest(lambda rest, m: own_logp(m, "b", "c")),
    ),
    "another class": (classes, with_y(lambda y: (y + 1) % 3)),
    "another class, of the same chances": (classes_of_all, with_y(lambda y: (y + 1) % 3)),
    "coefficients of classes": (classes, with_coefficients(lambda w: swapped(w, 0, 3))),
    "a count of a class": (counted_classes, with_y(lambda y: one_more(y, column=2))),
    "a trial of classes": (counted_classes, with_y(lambda y: one_more(y, column=3))),
    "classes in another order": (counted_classes, with_y(lambda y: y[:, [0, 2, 1, 3]])),
    "coefficients of counted classes": (
        counted_classes,
        with_coefficients(lambda w: swapped(w, 0, 3)),
    ),
    "the second likelihood": (several, with_y(lambda y: one_more(y), 1)),
    "its coefficients": (several, with_coefficients(lambda w: swapped(w, 0, 1), 1)),
}


@pytest.fixture(scope="module", autouse=True)
def evaluated_once():
    """What is no mutant's own, the model's values above all, is the same for all of its mutants."""
    original, found = RoundedFunction.__call__, {}

    def once(self, *arguments, seed=0):
        contents = tuple((each.shape, each.dtype.str, each.tobytes()) for each in arguments)
        key = self, contents, seed
        if key not in found:
            found[key] = original(self, *arguments, seed=seed)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoundedFunction, "__call__", once)
        yield


@pytest.mark.parametrize("observe", dict.fromkeys(each[0] for each in MUTANTS.values()))
@pytest.mark.slow_cases("counted_classes", "inflated", "classes_of_all")
def test_as_read(observe, any_size, caplog):
    compare(*model_of(observe))
    assert "could not be compared" not in caplog.text


#: With others of the same model that are quick.
ALIKE = (
    "sign of a potential",
    "small observed left out",
    "prior twice",
    "no intercept",
    "sign of a coefficient",
    "a limit for the other",
    "between cutpoints",
    "swapped nuisances",
    "rest of rows left out",
)


@pytest.mark.slow_cases(
    *ALIKE, "a count of a class", "a count above zero", "another class, of the same chances"
)
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant(name, any_size):
    observe, mutant = MUTANTS[name]
    model, reading = model_of(observe)
    with pytest.raises(UnsupportedModelError, match="as Firefly reads it, is not the model's own"):
        compare(model, mutant(reading, model))
