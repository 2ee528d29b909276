"""Refusals of models: each message ends in a way out, and what it says to write is read."""

import numpy as np
import pymc as pm
import pymc.dims as pmd
import pytensor.tensor as pt
import pytest

from pymc_flymc.reading.model import read_model
from tests.support.readings import check_density
from tests.support.ways_out import places, refusal

N = 60
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, 2))
x = X[:, 0]
ONES, COUNTS = RNG.integers(0, 2, N), RNG.poisson(2, N)
LEVELS = np.arange(N) % 4
POSITIVE = RNG.gamma(2.0, 1.0, N)
GROUP, LEVEL = np.arange(N) % 5, np.arange(N) % 3
MANY = np.arange(N) % 12
TABLE = ONES.reshape(12, 5)
VOTES = RNG.multinomial(10, [0.2, 0.3, 0.5], N)
exp, sigmoid, softmax = pm.math.exp, pm.math.sigmoid, pm.math.softmax
PROBIT = {"cutpoints": [-1.0, 0.0, 1.0], "observed": LEVELS}
MISSING = np.where(np.arange(N) == 3, np.nan, COUNTS)


def eta(name="beta"):
    return X @ pm.Normal(name, shape=2)


def positive(name="s", **shape):
    return pm.Gamma(name, 2.0, 1.0, **shape)


def cuts(name="c"):
    ordered = pm.distributions.transforms.ordered
    return pm.Normal(name, 0.0, 2.0, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])


def levels(**parameters):
    pm.OrderedLogistic("y", compute_p=False, observed=LEVELS, **parameters)


def cutpoints_of_items():
    c, e = pt.stack([cuts("c0"), cuts("c1")]), eta()
    item = np.arange(N) // 4 % 2
    return c, e, item


def one_variable_for_each_item():
    c, e, item = cutpoints_of_items()
    for j in range(2):
        parameters = {"eta": e[item == j], "cutpoints": c[j], "compute_p": False}
        pm.OrderedLogistic(f"y{j}", observed=LEVELS[item == j], **parameters)


def of_dims():
    pm.modelcontext(None).add_coord("row", np.arange(N))
    data = pmd.Data("x", x, dims=("row",))
    pm.Bernoulli("y", logit_p=(data * 1.0).values * pm.Normal("b"), observed=ONES)


def slopes():
    return pm.Normal("slope", shape=5), pm.Normal("effect", shape=3)


def product():
    slope, effect = slopes()
    pm.Bernoulli("y", logit_p=slope[GROUP] * effect[LEVEL], observed=ONES)


def pairs():
    slope, effect = slopes()
    pm.Bernoulli("y", logit_p=(slope[:, None] * effect)[GROUP, LEVEL], observed=ONES)


def classes(n, shape=None):
    """Several classes, the number of which is known to PyTensor if a shape is given."""
    b = pm.Normal("b", shape=(2, n))
    e = X @ b[:, b[0] > -1e9]
    e = e if shape is None else pt.specify_shape(e, shape)
    pm.Categorical("y", logit_p=e, observed=LEVELS)


def several(observed, rows):
    """A zero-inflated table, which has two predictors, or its rows."""
    a = pm.Normal("a", shape=12)
    mu = exp(a[np.indices((12, 5)).reshape(2, -1)[0]] if rows else a[:, None] + np.zeros(5))
    pm.ZeroInflatedPoisson("y", psi=0.7, mu=mu, observed=observed)


#: What is refused, a part of the message, and what the message says to write instead: None where
#: that is another model, and PyMC's own steps are left.
CASES = {
    "clipped probability": (
        lambda: pm.Bernoulli("y", p=0.1 + 0.8 * sigmoid(eta()), observed=ONES),
        "p=pm.math.sigmoid(eta)",
        lambda: pm.Bernoulli("y", p=sigmoid(eta()), observed=ONES),
    ),
    "mean of another link": (
        lambda: pm.Poisson("y", mu=pm.math.log1pexp(eta()), observed=COUNTS),
        "mu=exposure * pm.math.exp(eta)",
        lambda: pm.Poisson("y", mu=POSITIVE * exp(eta()), observed=COUNTS),
    ),
    "trials": (
        lambda: pm.Binomial("y", n=3 + pt.floor(positive()), logit_p=eta(), observed=ONES),
        "a constant or pm.Data",
        lambda: pm.Binomial("y", n=pm.Data("n", COUNTS + 1), logit_p=eta(), observed=ONES),
    ),
    "limit of censoring": (
        lambda: pm.Censored(
            "y", pm.Normal.dist(eta(), 1.0), lower=None, upper=positive(), observed=x
        ),
        "numbers, an array or pm.Data",
        lambda: pm.Censored("y", pm.Normal.dist(eta(), 1.0), lower=None, upper=9.0, observed=x),
    ),
    "limit of truncation": (
        lambda: pm.TruncatedNormal("y", eta(), 1.0, lower=-positive() - 9.0, observed=x),
        "a number, an array or pm.Data",
        lambda: pm.TruncatedNormal("y", eta(), 1.0, lower=-9.0, observed=x),
    ),
    "two limits": (
        lambda: pm.TruncatedNormal("y", eta(), 1.0, lower=-9.0, upper=9.0, observed=x),
        "lower= or upper=",
        lambda: pm.TruncatedNormal("y", eta(), 1.0, upper=9.0, observed=x),
    ),
    "shape of a gamma variable": (
        lambda: pm.Gamma("y", mu=exp(eta()), sigma=positive(), observed=POSITIVE),
        "pm.Gamma(alpha, beta=alpha / pm.math.exp(eta))",
        lambda: pm.Gamma("y", (a := positive()), beta=a / exp(eta()), observed=POSITIVE),
    ),
    "scale of each row": (
        lambda: pm.Laplace("y", eta(), b=exp(eta("gamma")), observed=x),
        "b=b * c",
        lambda: pm.Laplace("y", eta(), b=positive() * POSITIVE, observed=x),
    ),
    "scale of each row of normal noise": (
        lambda: pm.Normal("y", eta(), pm.math.log1pexp(eta("gamma")), observed=x),
        "sigma=pm.math.exp(tau)",
        lambda: pm.Normal("y", eta(), exp(eta("gamma")), observed=x),
    ),
    "shapes of groups": (
        lambda: pm.Weibull("y", positive(shape=5)[GROUP], exp(eta()), observed=POSITIVE),
        "one for all rows: a scalar alpha",
        lambda: pm.Weibull("y", positive(), exp(eta()), observed=POSITIVE),
    ),
    "dispersions of rows": (
        lambda: pm.NegativeBinomial(
            "y", mu=exp(eta()), alpha=pm.math.log1pexp(eta("gamma")), observed=COUNTS
        ),
        "alpha=pm.math.exp(tau)",
        lambda: pm.NegativeBinomial("y", mu=exp(eta()), alpha=exp(eta("gamma")), observed=COUNTS),
    ),
    "concentration of angles": (
        lambda: pm.VonMises("y", mu=eta(), kappa=positive(), observed=x),
        "kappa=2.0",
        lambda: pm.VonMises("y", mu=eta(), kappa=2.0, observed=x),
    ),
    "chances of classes": (
        lambda: pm.Categorical(
            "y", p=pt.stack([sigmoid(e := eta()), sigmoid(-e)], 1), observed=ONES
        ),
        "pm.Categorical(logit_p=eta)",
        lambda: pm.Categorical("y", logit_p=X @ pm.Normal("b", shape=(2, 2)), observed=ONES),
    ),
    "chances of counted classes": (
        lambda: pm.Multinomial(
            "y", n=10, p=softmax(X @ pm.Normal("b", shape=(2, 3)), axis=0), observed=VOTES
        ),
        "p=pm.math.softmax(eta, axis=-1)",
        lambda: pm.Multinomial(
            "y", n=10, p=softmax(X @ pm.Normal("b", shape=(2, 3)), axis=-1), observed=VOTES
        ),
    ),
    "ordered probit": (
        lambda: pm.OrderedProbit("y", eta=eta(), compute_p=False, **PROBIT),
        "use pm.OrderedLogistic(eta=eta, cutpoints=cutpoints)",
        lambda: levels(eta=eta(), cutpoints=[-1.0, 0.0, 1.0]),
    ),
    "cutpoints of items": (
        lambda: levels(eta=(of := cutpoints_of_items())[1], cutpoints=of[0][of[2]]),
        "eta=eta[item == j] and cutpoints=cutpoints[j]",
        one_variable_for_each_item,
    ),
    "unknown number of cutpoints": (
        lambda: levels(eta=eta(), cutpoints=(c := cuts())[c > -1e9]),
        "pt.specify_shape(cutpoints, (3,))",
        lambda: levels(eta=eta(), cutpoints=pt.specify_shape((c := cuts())[c > -1e9], (3,))),
    ),
    "unknown number of classes": (
        lambda: classes(4),
        "pt.specify_shape(eta, (None, 3))",
        lambda: classes(4, (None, 4)),
    ),
    "unsupported family": (
        lambda: pm.Kumaraswamy("y", 1.0, exp(eta()), observed=sigmoid(x).eval()),
        "Instead of pm.Kumaraswamy: pm.Beta",
        lambda: pm.Beta("y", mu=sigmoid(eta()), nu=positive(), observed=sigmoid(x).eval()),
    ),
    "missing values": (
        lambda: pm.Poisson("y", exp(eta()), observed=MISSING),
        "keep = ~np.isnan(y)",
        lambda: pm.Poisson(
            "y", exp(eta()[(keep := ~np.isnan(MISSING))]), observed=MISSING[keep].astype(int)
        ),
    ),
    "minibatch": (
        lambda: pm.Normal("y", pm.Normal("b"), 1.0, observed=pm.Minibatch(x, batch_size=9)),
        "give all rows",
        lambda: pm.Normal("y", pm.Normal("b"), 1.0, observed=x),
    ),
    "minibatch of a predictor": (
        lambda: pm.Poisson(
            "y", exp(pm.Normal("b") * pm.Minibatch(x, batch_size=N)), observed=COUNTS
        ),
        "random numbers of pm.Minibatch",
        lambda: pm.Poisson("y", exp(pm.Normal("b") * x), observed=COUNTS),
    ),
    "variable of one number": (
        lambda: pm.Normal("y", pm.Normal("b"), 1.0, observed=0.5),
        "a vector of observed values",
        lambda: pm.Normal("y", pm.Normal("b"), 1.0, observed=x),
    ),
    "discrete variable": (
        lambda: pm.Poisson("y", exp(eta() * pm.Bernoulli("z", 0.5)), observed=COUNTS),
        "sum them out of the model",
        None,
    ),
    "data of pymc.dims": (
        of_dims,
        "write it with pm.Data",
        lambda: pm.Bernoulli("y", logit_p=pm.Data("x", x) * pm.Normal("b"), observed=ONES),
    ),
    "nothing to sample": (
        lambda: (pm.Normal("b"), pm.Normal("y", x, 1.0, observed=x)),
        "depends on no free variable",
        None,
    ),
    "mean over rows": (
        lambda: pm.Normal("y", (e := eta()) - e.mean(), 1.0, observed=x),
        "centre the data before the model",
        lambda: pm.Normal("y", (X - X.mean(0)) @ pm.Normal("b", shape=2), 1.0, observed=x),
    ),
    "chance that may be negative": (
        lambda: pm.Bernoulli("y", p=(-(pm.Beta("p", 1, 1, shape=5) ** 2))[GROUP], observed=ONES),
        "priors within 0 and 1, such as pm.Beta",
        lambda: pm.Bernoulli("y", p=pm.Beta("p", 1, 1, shape=5)[GROUP], observed=ONES),
    ),
    "table of classes": (
        lambda: pm.Categorical("y", logit_p=pm.Normal("b", shape=(12, 5, 3)), observed=TABLE),
        "observed=Y.ravel()",
        lambda: pm.Categorical(
            "y",
            logit_p=pm.Normal("b", shape=(12, 3))[np.indices(TABLE.shape).reshape(2, -1)[0]],
            observed=TABLE.ravel(),
        ),
    ),
    "table of two predictors": (
        lambda: several(TABLE, False),
        "person, item = np.indices(Y.shape).reshape(2, -1)",
        lambda: several(TABLE.ravel(), True),
    ),
    "table of a function": (
        lambda: pm.Normal("y", pt.sort(pm.Normal("b") * np.ones((12, 5))), 1.0, observed=TABLE),
        "not known to be linear",
        None,
    ),
    "column of outcomes": (
        lambda: pm.Normal("y", eta(), 1.0, observed=x[:, None]),
        "observed=y.ravel()",
        lambda: pm.Normal("y", eta(), 1.0, observed=x[:, None].ravel()),
    ),
    "two factors by row": (
        product,
        "(slope[:, None] * effect)[group, level]",
        pairs,
    ),
    "function of data and variables": (
        lambda: pm.Normal("y", pm.math.exp(eta()), 1.0, observed=x),
        "B @ beta",
        lambda: pm.Normal("y", np.stack([x, x**2], 1) @ pm.Normal("b", shape=2), 1.0, observed=x),
    ),
    "element of each row": (
        lambda: pm.Normal(
            "y",
            pt.sort(X @ pm.Normal("B", shape=(2, 3)), axis=0)[np.arange(N), LEVEL],
            1.0,
            observed=x,
        ),
        "(X * B.T[column]).sum(axis=1)",
        lambda: pm.Normal(
            "y", (X * pm.Normal("B", shape=(2, 3)).T[LEVEL]).sum(axis=1), 1.0, observed=x
        ),
    ),
}


def model_of(write):
    with pm.Model() as model:
        write()
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_what_the_message_says_to_write_is_read(name):
    write, phrase, instead = CASES[name]
    message, _ = refusal(lambda: read_model(model_of(write)))
    assert phrase in message
    assert "eave out step=" in message
    if instead is not None:
        model = model_of(instead)
        check_density(model, read_model(model))


#: Those that depend on more than a model, and the tests that have them.
ELSEWHERE = {
    "observed_rows.py:check_variables": "reading/test_model.py",  # vars=
    "observed_rows.py:check_variables 2": "steps/test_errors.py",  # vars=
    "rows_alone.py:check_rows_alone": "reading/test_rows_alone.py",  # data=
    "family.py:SmoothFamily._unlimited": "likelihoods/test_limits.py",
    "family.py:JointlySmoothFamily.third_beyond": "likelihoods/test_limits.py",
    "family.py:_traverse.operation": "likelihoods/test_limits.py",
}
#: Those that no model is known to come to: the message asks for a report, or another family reads
#: such models.
UNREACHED = {
    "counts.py:NegativeBinomialLog.read",
    "predictor.py:check_predictor 2",
}


@pytest.mark.filterwarnings("ignore")
def test_all_refusals_of_models_are_in_the_table():
    made = {refusal(lambda: read_model(model_of(write)))[1] for write, *_ in CASES.values()}
    assert places("reading", "likelihoods") == made | set(ELSEWHERE) | UNREACHED
