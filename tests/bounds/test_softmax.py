"""Properties of the softmax bounds: below the likelihood everywhere, tight, collapsing exactly."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from pymc_flymc import Bohning, FireflyMH, JaakkolaJordan, JebaraChoromanska, Taylor
from pymc_flymc.bounds import ExpansionBound, log_odds, row_factor
from pymc_flymc.extending import check_bound
from pymc_flymc.graphs.compilation import compile_log_factor, compile_log_factor_gradient
from pymc_flymc.likelihoods import BernoulliLogit, Softmax
from tests.support.data import softmax_rows
from tests.support.models import softmax_model
from tests.support.patches import no_row_kept_bright

K = 4
# Predictors of all classes but the first, which is the reference.
vectors = st.lists(st.floats(-1e3, 1e3), min_size=K - 1, max_size=K - 1).map(np.array)
labels = st.integers(0, K - 1)
EPS = np.finfo(float).eps


def compile_gap(bound, k):
    arguments = [pt.dvector(f"eta_{i}") for i in range(1, k)]
    constants = pt.dmatrix("constants")
    likelihood = Softmax(n_predictors=k - 1)
    gap = bound.gap(likelihood, arguments, constants, pt.zeros((0,)))
    gradient = pytensor.grad(gap.sum(), arguments)
    mode = pytensor.compile.Mode(linker="py", optimizer=None)
    inputs = [*arguments, constants]
    outputs = [gap, log_odds(gap), *gradient]
    return pytensor.function(inputs, outputs, mode=mode)


def curvature_of(bound, touch):
    """Curvatures from the definitions, for all classes, shape (K, K)."""
    k = len(touch)
    if isinstance(bound, Bohning):
        return 0.5 * (np.eye(k) - 1.0 / k)
    first = int(np.argmax(touch))
    order = [first, *(i for i in range(k) if i != first)]
    log_z, mu, S = touch[first], np.eye(k)[first], np.zeros((k, k))
    for i in order[1:]:
        xi, along = touch[i] - log_z, np.eye(k)[i] - mu
        c = 0.25 if abs(xi) < 1e-7 else np.tanh(0.5 * xi) / (2.0 * xi)
        S += c * np.outer(along, along)
        new = np.logaddexp(log_z, touch[i])
        mu = mu + np.exp(touch[i] - new) * along
        log_z = new
    return S


@pytest.fixture(scope="module", params=[Bohning(), JebaraChoromanska()], ids=lambda b: b.name)
def compiled(request):
    return request.param, compile_gap(request.param, K)


def constants_of(touch, slack=0.0):
    return np.array([[slack, *touch]])


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e9, 1e17])
def test_native_code_is_the_graph_as_written(compiled, scale):
    """However far out: rewritten, sums can lose all digits there, and odds come out infinite."""
    bound, graph = compiled
    rng, n = np.random.default_rng(5), 2000
    touch, u = rng.normal(size=(n, K - 1)), scale * rng.standard_cauchy(size=(n, K - 1))
    eta, constants = touch + u, np.column_stack([np.full(n, 0.5), touch])
    factor = row_factor(Softmax(n_predictors=K - 1), bound)
    odds, again, slopes = np.empty(n), np.empty(n), np.empty((n, K - 1))
    none = np.empty(0)
    compile_log_factor(factor)(eta, constants, none, odds)
    compile_log_factor_gradient(factor)(eta, constants, none, again, slopes, none)
    expected = graph(*eta.T, constants)[1]
    # A sum of K^2 squares, each rounded.
    allowed = K**2 * EPS * (1.0 + np.sum(u**2, axis=1))
    assert np.all(np.abs(odds - expected) < allowed)
    assert np.all(np.abs(again - expected) < allowed)
    assert np.all(np.isfinite(slopes))


@settings(max_examples=500)
@given(eta=vectors, touch=vectors, y=labels, slack=st.floats(0.0, 5.0))
def test_bound_is_below_the_likelihood(compiled, eta, touch, y, slack):
    bound, gap_of = compiled
    gap = gap_of(*eta[:, None], constants_of(touch, slack))[0][0]
    size = 1.0 + np.abs(eta).max() + np.abs(touch).max() + np.sum((eta - touch) ** 2)
    rounding = 32 * EPS * size
    # The gap that the kernels use is that between the likelihood and the quadratic ...
    eta, touch = np.append(0.0, eta), np.append(0.0, touch)
    u = eta - touch
    log_bound = log_softmax(touch)[y] + u[y] - np.exp(log_softmax(touch)) @ u
    log_bound -= 0.5 * u @ curvature_of(bound, touch) @ u
    expected = log_softmax(eta)[y] - log_bound + slack
    assert gap == pytest.approx(expected, rel=1e-12, abs=rounding)
    # ... and never negative, but for rounding.
    assert gap >= -rounding


@given(touch=vectors)
def test_bound_touches_where_it_should(compiled, touch):
    rounding = 32 * EPS * (1.0 + np.abs(touch).max())
    gap, _, *gradient = compiled[1](*touch[:, None], constants_of(touch))
    assert abs(gap[0]) <= rounding
    assert np.all(np.abs(gradient) <= rounding)


@given(touch=vectors)
def test_curvature(compiled, touch):
    bound, _ = compiled
    ours, touch = bound.curvature(touch[:, None])[:, :, 0], np.append(0.0, touch)
    expected = curvature_of(bound, touch)
    rounding = 32 * EPS * (1.0 + np.abs(touch).max())
    np.testing.assert_allclose(ours, expected[1:, 1:], atol=rounding)
    p = np.exp(log_softmax(touch))
    excess = np.linalg.eigvalsh(expected - np.diag(p) + np.outer(p, p))
    assert np.all(excess >= -rounding)


@given(eta=st.floats(-1e3, 1e3), touch=st.floats(-1e3, 1e3), slack=st.floats(0.0, 5.0))
def test_two_classes_are_jaakkola_and_jordan(two_classes, eta, touch, slack):
    ours, theirs = two_classes
    part = JaakkolaJordan().constants(np.array([abs(touch)]), np.ones(1), np.array([slack]))
    expected = theirs(np.array([eta]), part)[0]
    gap = ours(np.array([eta]), constants_of([touch], slack))[0][0]
    rounding = 32 * EPS * (1.0 + abs(eta) + abs(touch) + (eta - touch) ** 2)
    assert gap == pytest.approx(expected, rel=1e-12, abs=rounding)


@pytest.fixture(scope="module")
def two_classes():
    eta, constants = pt.dvector("eta"), pt.dmatrix("constants")
    gap = JaakkolaJordan().gap(BernoulliLogit(), [eta], constants, pt.zeros((0,)))
    mode = pytensor.compile.Mode(linker="py", optimizer=None)
    theirs = pytensor.function([eta, constants], gap, mode=mode)
    return compile_gap(JebaraChoromanska(), 2), theirs


def test_confident_rows_have_less_curvature():
    """Traces in excess of the Hessian's, the more so the more confident the rows."""
    rng = np.random.default_rng(1)
    for spread, share in ((0.5, 0.7), (4.0, 0.4)):
        touch = spread * rng.normal(size=(K - 1, 500))
        p = np.exp(log_softmax(np.concatenate([np.zeros((1, 500)), touch]), axis=0))[1:]
        least = np.sum(p * (1.0 - p))
        ours, theirs = (
            np.einsum("kkn->", bound.curvature(touch)) - least
            for bound in (JebaraChoromanska(), Bohning())
        )
        assert ours < share * theirs


# --- Taylor -------------------------------------------------------------------------------------


@settings(max_examples=500)
@given(
    eta=st.lists(st.floats(-30, 30), min_size=K, max_size=K).map(np.array),
    along=st.lists(st.floats(0, 1), min_size=K, max_size=K).map(np.array),
    half_width=st.floats(0.0, 10.0),
    share=st.floats(0.0, 1.0),
)
def test_third_derivative_is_bounded(eta, along, half_width, share):
    """Along the way from eta to a point whose differences from it are at most `half_width`."""
    p = np.exp(log_softmax(eta + share * half_width * (along - 0.5)))
    third = p @ (along - p @ along) ** 3
    box = eta[:, None] - 0.5 * half_width, eta[:, None] + 0.5 * half_width
    likelihood = Softmax(n_predictors=K - 1)
    local = likelihood.derivative_bound(3, *box, np.zeros(1))[0]
    everywhere = likelihood.derivative_bound(3, -np.inf, np.inf, np.zeros(1))[0]
    range_ = along.max() - along.min()
    assert abs(third) <= local * range_**3 * (1 + 1e-9) + 4 * EPS
    assert local <= everywhere == pytest.approx(0.09622504486493763)


def test_global_limit_is_attained():
    q = 0.5 * (1.0 - 1.0 / np.sqrt(3.0))  # of one value, against the others
    p, along = np.array([1.0 - q, q, 0.0]), np.array([0.0, 1.0, 0.5])
    third = p @ (along - p @ along) ** 3
    limit = Softmax(n_predictors=2).derivative_bound(3, -np.inf, np.inf, np.zeros(1))[0]
    assert third == pytest.approx(limit, rel=1e-12)


@pytest.mark.parametrize("k", [2, K])
@pytest.mark.parametrize(
    "bound", [Bohning(), JebaraChoromanska(), JebaraChoromanska(tuned=False), Taylor()]
)
def test_gap_is_never_negative(bound, k):
    check_bound(bound, Softmax(n_predictors=k - 1), np.arange(300) % k)


# --- collapsed sum ------------------------------------------------------------------------------

BOUNDS = [
    Bohning(),
    Bohning(tuned=False, slack=0.0),
    JebaraChoromanska(),
    JebaraChoromanska(tuned=False, slack=0.0),
    Taylor(),
]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.slow_cases("False-bound0", "True-bound2", "True-bound4", "False-bound1")
def test_collapsed_sum_is_the_sum_over_rows(bound, reference):
    X, y = softmax_rows(300, 3, K)
    model = softmax_model(X, y, K, reference)
    with model, no_row_kept_bright():
        step = FireflyMH(kernel="metropolis", bound=bound)
    log_prior = model.compile_logp(vars=model.free_RVs)
    target, rng = step.target, np.random.default_rng(2)
    rows, d = target.data.rows, len(target.geometry.centre)
    for scale in (0.0, 0.1, 1.0, 10.0):
        theta = target.geometry.centre + scale * target.geometry.factor @ rng.standard_normal(d)
        w = np.empty(3 * (K - 1) + bound.n_shared)
        value = target.density(theta, target.statistics, w)
        W = theta.reshape(3, -1)
        if not reference:
            W = W[:, 1:] - W[:, :1]
        n_w = W.size
        np.testing.assert_allclose(w[:n_w].reshape(K - 1, 3).T, W, atol=4 * EPS * np.abs(W).max())
        eta, odds = X @ W, np.empty(len(y))
        target.parts[0].log_factor(eta, rows.constants, w[n_w:], odds)
        if isinstance(bound, ExpansionBound):
            # Its factors are without the rates, and its sum is one of expansions.
            rates = rows.constants[:, :2] @ w[n_w:]
            above = np.logaddexp(0.0, odds + rates) - rates
        else:
            above = np.logaddexp(0.0, odds)
        log_l = log_softmax(np.column_stack([np.zeros(len(X)), eta]), axis=1)
        collapsed = log_l[np.arange(len(y)), y] - above
        prior = log_prior(step._layout.unravel(theta))
        assert value == pytest.approx(prior + collapsed.sum(), rel=1e-10)
