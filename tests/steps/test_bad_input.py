"""Data that are changed: models are sampled as they are, or refused by an error with a name."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import UnsupportedModelError
from tests.support.steps import drive, step_of

N = 40
RNG = np.random.default_rng(8)
X = np.column_stack([np.ones(N), RNG.normal(size=(N, 2))])
Y = RNG.integers(0, 2, N)
COUNTS = RNG.poisson(2.0, N)
GROUP = RNG.integers(0, 4, N)


def with_value(value):
    changed = X.copy()
    changed[7, 1] = value
    return changed


def outcomes(value):
    changed = Y.astype(float)
    changed[7] = value
    return changed


def logistic(X=X, y=Y, name="bought", prior=1.0):
    def write():
        beta = pm.Normal("beta", 0.0, prior, shape=np.shape(X)[1])
        pm.Bernoulli(name, logit_p=pm.math.dot(X, beta), observed=y)

    return write


def poisson(X=X, y=COUNTS, group=GROUP, n_groups=4, name="bought", prior=1.0):
    def write():
        beta = pm.Normal("beta", 0.0, prior, shape=X.shape[1])
        effects = pm.Normal("a", 0.0, 1.0, shape=n_groups)
        pm.Poisson(name, mu=pm.math.exp(X @ beta + effects[group]), observed=y)

    return write


def normal(X=X, y=RNG.normal(size=N), scale=1.0):
    def write():
        beta = pm.Normal("beta", 0.0, scale, shape=X.shape[1])
        pm.Normal("bought", X @ beta, pm.HalfNormal("s", scale), observed=scale * y)

    return write


def probabilities(p):
    def write():
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        pm.Binomial("bought", n=p, logit_p=X @ beta, observed=np.zeros(N, int))

    return write


class Labelled(np.ndarray):
    """An array of a class of its own."""


#: Models that are to be sampled.
SAMPLED = {
    "half precision": logistic(X.astype(np.float16)),
    "single precision": logistic(X.astype(np.float32)),
    "columns one after the other": logistic(np.asfortranarray(X)),
    "rows backwards in memory": logistic(X[::-1], Y[::-1]),
    "every other row": logistic(np.repeat(X, 2, axis=0)[::2], np.repeat(Y, 2)[::2]),
    "numbers that are true or false": logistic(X > 0.0),
    "bytes": logistic((10.0 * X).astype(np.int8)),
    "unsigned numbers": logistic(np.abs(10.0 * X).astype(np.uint16), prior=0.1),
    "arrays of another class": logistic(X.view(Labelled), Y.view(Labelled)),
    "no right to write": logistic(np.frombuffer(X.tobytes()).reshape(X.shape)),
    "outcomes as truth values": logistic(y=Y.astype(bool)),
    "outcomes as real numbers": logistic(y=Y.astype(float)),
    "outcomes as bytes": logistic(y=Y.astype(np.uint8)),
    "an outcome of a half, which PyMC rounds": logistic(y=outcomes(0.5)),
    "one outcome alone": logistic(y=np.ones(N, int)),
    "no counts": poisson(y=np.zeros(N, int)),
    "a column of zeros": logistic(np.column_stack([X, np.zeros(N)])),
    "a column twice": logistic(np.column_stack([X, X[:, 1]])),
    "two constant columns": logistic(np.column_stack([X, np.ones(N)])),
    "one row": logistic(X[:1], Y[:1]),
    "more columns than rows": logistic(RNG.normal(size=(5, 12)), Y[:5]),
    "levels without rows": poisson(n_groups=9),
    "one level": poisson(group=np.zeros(N, int), n_groups=1),
    "levels as bytes": poisson(group=GROUP.astype(np.uint8)),
    "levels counted from the end": poisson(group=GROUP - 4),
    "tiny columns": logistic(X * 1e-8, prior=1e8),
    "huge columns": logistic(X * 1e150, prior=1e-150),
    "tiny and huge columns": logistic(X * [1e-100, 1.0, 1e100], prior=np.array([1e100, 1, 1e-100])),
    "tiny outcomes": normal(scale=1e-100),
    "huge outcomes": normal(scale=1e100),
    "a name in another script": logistic(name="продажи ☂"),
    "a name with blanks and quotes": logistic(name='it\'s "bought" {x}'),
}
#: Models that are not, and what the error says.
REFUSED = {
    "a missing number": (logistic(with_value(np.nan)), "bought"),
    "an infinite number": (logistic(with_value(np.inf)), "bought"),
    "an outcome that is no number": (logistic(y=outcomes(np.nan)), "bought"),
    "an outcome that is infinite": (logistic(y=outcomes(np.inf)), "bought"),
    "an outcome of two": (logistic(y=outcomes(2.0)), "bought"),
    "a negative count": (poisson(y=COUNTS - 4), "bought"),
    "an offset that is no number": (poisson(X=with_value(np.nan)), "bought"),
    "a missing trial": (probabilities(np.where(np.arange(N) == 3, -1, 4)), "bought"),
    "masked outcomes": (logistic(y=np.ma.masked_equal(Y, 1)), "bought"),
    "no column": (logistic(np.empty((N, 0))), "nothing to sample: no element of 'beta'"),
    "no rows": (logistic(X[:0], Y[:0]), "bought"),
}
#: What PyMC or PyTensor refuse themselves.
NO_MODEL = {
    "more than double precision": logistic(X.astype(np.longdouble)),
    "bytes in another order": logistic(X.astype(">f8")),
    "words": logistic(X.astype(str)),
    "objects": logistic(X.astype(object)),
    "complex numbers": logistic(X.astype(complex)),
    "other lengths": logistic(X, Y[:-1]),
}


#: With others of their kind that are quick: huge outcomes, and columns both tiny and huge.
LONG = "tiny outcomes", "huge columns"


@pytest.mark.filterwarnings("ignore:the linear predictor of .* by an index that is negative")
@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=pytest.mark.slow if each in LONG else ()) for each in SAMPLED]
)
@pytest.mark.slow_cases(
    "half precision",
    "numbers that are true or false",
    "bytes",
    "single precision",
    "levels as bytes",
    "one level",
    "two constant columns",
    "unsigned numbers",
    "more columns than rows",
    "columns one after the other",
    "arrays of another class",
    "outcomes as bytes",
    "outcomes as truth values",
    "rows backwards in memory",
    "tiny columns",
    "tiny and huge columns",
    "huge outcomes",
)
def test_sampled_as_it_is(what):
    """The step compares what it has read with the model itself: what is built is the model's."""
    with pm.Model() as model:
        SAMPLED[what]()
    step = step_of(model)
    draws, stats = drive(step, model.initial_point(), tune=50, draws=50)
    assert np.isfinite(draws).all()
    assert stats["moved"].mean() > 0.3 or draws.shape[-1] == 0


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:Data in bought contains missing values:UserWarning")
@pytest.mark.parametrize("what", REFUSED)
def test_refused_by_name(what):
    write, name = REFUSED[what]
    with pm.Model() as model:
        write()
    with pytest.raises((UnsupportedModelError, ValueError), match=name):
        step_of(model)


@pytest.mark.parametrize("what", NO_MODEL)
def test_no_model(what):
    """Nothing of it is taken for numbers."""
    with pytest.raises((TypeError, ValueError, NotImplementedError)), pm.Model() as model:
        NO_MODEL[what]()
        step_of(model)
