"""Refusals of steps: each message ends in a way out, and what it says to write is set up."""

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_flymc import FireflyMH, JaakkolaJordan, Taylor, random_rows, summarize_rows
from pymc_flymc.errors import OTHERWISE
from pymc_flymc.out_of_core.data_setting import source_of
from pymc_flymc.steps import setup
from tests.anchor.test_expanded_density import Square, opaque
from tests.sampling import test_local_sweeps as sweeps
from tests.support.data import logistic_rows
from tests.support.observing import guarded
from tests.support.out_of_core import logistic, step_elsewhere, written_on_head
from tests.support.ways_out import PACKAGE, places, refusal

N = 120
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, 2))
ONES, COUNTS = RNG.integers(0, 2, N), RNG.poisson(2.0, N)
NOISY = X[:, 0] + RNG.normal(size=N)
GROUP = np.arange(N) % 6
ROWS = {"X": X, "y": ONES}
exp, sigmoid = pm.math.exp, pm.math.sigmoid


def read(write, vars=None, anchor=None):
    """Set up a model whose rows are in memory."""
    with pm.Model() as model:
        write()
    return setup.read(model, vars and vars(model), anchor, None, "auto")


def stored(write, data=ROWS, vars=None):
    """Set up a model whose rows are out of core."""
    model = written_on_head(data, write)
    return setup.read(model, vars and vars(model), None, None, "auto", source_of(data))


def step(write, **settings):
    with pm.Model():
        write()
        return FireflyMH(**settings)


def eta(x=X):
    return x @ pm.Normal("beta", shape=2)


def binary(e, y=ONES):
    pm.Bernoulli("y", logit_p=e, observed=y)


def outlier(link):
    """A row whose outcome is all but impossible by the others."""
    x = np.append(NOISY, 1000.0)
    link(pm.Normal("b", 0.0, 5.0) * x, np.append(NOISY > 0.0, False))


def variance(further):
    pm.Normal("y", eta(), pm.math.sqrt(1.0 + X[:, 1] ** 2 + further), observed=NOISY)


def rates(rate):
    """Of groups, the last of which have no row if there are more than six."""
    pm.Poisson("y", rate[GROUP], observed=COUNTS)


def correlation(b):
    x, y = logistic_rows(60, [-0.5])
    matrix = pt.stack([pt.stack([1.0, 1.5 * b]), pt.stack([1.5 * b, 1.0])])
    pm.Potential("p", -pt.sum(pt.log(pt.diagonal(pt.linalg.cholesky(matrix)))))
    binary(x[:, 0] * b, y)


def kink(**start):
    beta = pm.Normal("beta", shape=2, **start)
    pm.Potential("edge", -pm.math.sqrt(beta[1] ** 2))
    binary(X @ beta)


def funnel(prior, effects):
    """Effects on which no row depends."""
    s = prior("s")
    effects(s)
    binary(eta())


def of_rows(distribution):
    """Write a model of the containers X and y, given its linear predictor and outcomes."""
    return lambda data: distribution(eta(data["X"]), data["y"])


def table(data):
    y, g = data["y"], data["g"]
    a = pm.Normal("a", shape=(6, 3))
    pm.Bernoulli("o", logit_p=a[g], observed=y)


TABLE = {"y": RNG.integers(0, 2, (N, 3)), "g": GROUP}
LONG = {"y": TABLE["y"].ravel(), "g": np.repeat(GROUP, 3), "item": np.tile(np.arange(3), N)}


def long(data):
    pm.Bernoulli(
        "o", logit_p=pm.Normal("a", shape=(6, 3))[data["g"], data["item"]], observed=data["y"]
    )


def laplace(e, y):
    pm.Laplace("o", e, 1.0, observed=y)


def with_total(of_all=None):
    def write(data):
        logistic(data)
        more = data["X"].sum() if of_all is None else of_all
        pm.Potential("more", more * model_beta())

    return write


def model_beta():
    return pm.modelcontext(None)["beta"].sum() * 1e-3


def with_mean(data):
    logistic(data)
    pm.Deterministic("share", data["y"].mean())


MANY = {"g": np.arange(640) % 320, "y": RNG.integers(0, 2, 640)}


def many(data):
    pm.Bernoulli("o", logit_p=pm.Normal("a", shape=320)[data["g"]], observed=data["y"])


def weak(data):
    """Nothing is learnt of the scale."""
    s = pm.HalfCauchy("s", 1.0)
    pm.Bernoulli("o", logit_p=0.01 * data["X"] @ (s * pm.Normal("z", shape=2)), observed=data["y"])


def in_memory(write, data):
    return lambda: write({name: pm.Data(name, values) for name, values in data.items()})


def summary(expression, names=("beta",)):
    """Summarize an expression of a model's variables by draws of some of these."""
    idata = az.from_dict({"posterior": {name: RNG.normal(size=(2, 5, 2)) for name in names}})
    with written_on_head(ROWS, logistic) as model:
        return summarize_rows(idata, expression(model), data=ROWS)


def draws_at_random_rows():
    idata = az.from_dict({"posterior": {"beta": RNG.normal(size=(2, 5, 2))}})
    with written_on_head(ROWS, logistic):
        _, rows = random_rows(ROWS, 30, random_seed=3)
        pm.set_data(rows)
        found = pm.sample_posterior_predictive(idata, progressbar=False)
    assert found.posterior_predictive["y_obs"].shape == (2, 5, 30)


def kernel(name, effects, *outcomes, **settings):
    with sweeps.model_of(effects, *outcomes):
        return FireflyMH(kernel=name, **settings)


def in_single_precision():
    with pytensor.config.change_flags(floatX="float32", warn_float64="ignore"):
        return kernel("local", sweeps.intercepts)


def beside_another(**settings):
    """Leave to another step a variable that no row depends on."""

    def effects(tau, x):
        pm.Normal("c", tau, 1.0)
        return sweeps.intercepts(tau, x)

    with sweeps.model_of(effects) as model:
        names = settings.get("vars")
        others = {"vars": [model[name] for name in names]} if names else {}
        return FireflyMH(kernel="local", **others)


def local(*written):
    """What local sweeps cannot sample, and other moves can."""
    return (
        lambda: kernel("local", *written),
        "take kernel='auto' or 'hamiltonian' here",
        lambda: kernel("auto", *written),
        lambda: kernel("hamiltonian", *written),
    )


#: By the place that refuses it: a model or a call, a part of the message, and what the message says
#: to write instead, each of the ways; none where only PyMC's own steps are left.
CASES = {
    "guarded_rows.py:check_guards": (
        lambda: stored(of_rows(lambda e, y: pm.Bernoulli("o", p=guarded(sigmoid(e)), observed=y))),
        "Write the link alone, as in logit_p=eta",
        lambda: stored(of_rows(lambda e, y: pm.Bernoulli("o", logit_p=e, observed=y))),
    ),
    "guarded_rows.py:check_guards 2": (
        lambda: read(
            lambda: outlier(lambda e, y: pm.Bernoulli("y", p=guarded(sigmoid(e)), observed=y))
        ),
        "the link alone, as in pm.Bernoulli(logit_p=eta)",
        lambda: read(lambda: outlier(binary)),
    ),
    "undefined.py:check_defined": (
        lambda: read(lambda: variance(pm.Normal("v", 0.5, 0.5))),
        "such as pm.HalfNormal, or write squares of them, as in pm.math.sqrt(se**2 + tau**2), "
        "where the initial value of tau must not be zero",
        lambda: read(lambda: variance(pm.HalfNormal("v"))),
        lambda: read(lambda: variance(pm.Normal("tau", 0.5) ** 2)),
        lambda: read(lambda: variance(pm.Normal("tau", initval=0.5) ** 2)),
    ),
    "expanded_density.py:ExpandedDensity.__init__": (
        lambda: setup.read(opaque(Square(0)), None, None, None, "auto"),
        "PyTensor has no gradient",
    ),
    "mode_finding.py:_anchor": (
        lambda: read(lambda: rates(pm.Normal("rate", shape=40, initval=np.ones(40)))),
        "priors of positive values, such as pm.Gamma, or leave out groups without rows",
        lambda: read(lambda: rates(pm.Gamma("rate", 2.0, 1.0, shape=40))),
        lambda: read(lambda: rates(pm.Normal("rate", shape=6, initval=np.ones(6)))),
    ),
    "newton.py:_in_units": (
        lambda: read(lambda: correlation(pm.Normal("b"))),
        "Give it a prior that keeps away from there",
        lambda: read(lambda: correlation(pm.Uniform("b", -0.5, 0.5))),
    ),
    "objective.py:LogPosterior.value": (
        lambda: read(kink),
        "give FireflyMH an anchor=, or the variables other initial values",
        lambda: read(kink, anchor={"beta": np.full(2, 0.1)}),
        lambda: read(lambda: kink(initval=np.full(2, 0.1))),
    ),
    "objective.py:Objective.precision_blocks": (
        lambda: read(
            lambda: funnel(
                lambda s: pm.HalfCauchy(s, 1.0), lambda s: pm.Laplace("a", 0.0, s, shape=200)
            )
        ),
        "scale * z with z ~ Normal(0, 1), or give it a prior that keeps away",
        lambda: read(
            lambda: funnel(lambda s: pm.HalfCauchy(s, 1.0), lambda s: s * pm.Normal("z", shape=200))
        ),
        lambda: read(
            lambda: funnel(
                lambda s: pm.InverseGamma(s, 2.0, 1.0),
                lambda s: pm.Laplace("a", 0.0, s, shape=200),
            )
        ),
    ),
    "design_builder.py:row_graphs_of": (
        lambda: stored(
            of_rows(lambda e, y: pm.Gumbel("o", e, 1.0, observed=y)), {"X": X, "y": NOISY}
        ),
        "Instead of pm.Gumbel: pm.Weibull(1 / beta, pm.math.exp(-mu)) for np.exp(-y)",
        lambda: stored(
            of_rows(lambda e, y: pm.Weibull("o", 1.0, exp(-e), observed=y)),
            {"X": X, "y": np.exp(-NOISY)},
        ),
    ),
    "design_builder.py:row_graphs_of 2": (
        lambda: stored(table, TABLE),
        "Write it with a row for each value, or without data=",
        lambda: stored(long, LONG),
        lambda: read(in_memory(table, TABLE)),
    ),
    "design_builder.py:_check_likelihood": (
        lambda: stored(of_rows(laplace), {"X": X, "y": NOISY}),
        "Put the rows into the model, without data=",
        lambda: read(in_memory(of_rows(laplace), {"X": X, "y": NOISY})),
    ),
    "feasibility.py:_bound_of": (
        lambda: step_elsewhere(
            written_on_head(ROWS, logistic), ROWS, bound={"y_obs": JaakkolaJordan()}
        ),
        "is 'auto' or Taylor()",
        lambda: step_elsewhere(written_on_head(ROWS, logistic), ROWS, bound={"y_obs": "auto"}),
        lambda: step_elsewhere(written_on_head(ROWS, logistic), ROWS, bound={"y_obs": Taylor()}),
    ),
    "feasibility.py:_check": (
        lambda: step_elsewhere(written_on_head(ROWS, weak), ROWS),
        "put the rows into the model, without data=",
        lambda: step(in_memory(weak, ROWS)),
    ),
    "row_summaries.py:summarize_rows": (
        lambda: summary(lambda m: {"p": m["X"] * m["beta"]}),
        "give several columns one by one, as p[:, 0]",
        lambda: summary(lambda m: {"p": (m["X"] * m["beta"])[:, 0]}),
    ),
    "row_summaries.py:RowSummary.of": (
        lambda: summary(lambda m: {"y": m["y_obs"]}),
        "give what is expected of it, or draw it for some rows",
        lambda: summary(lambda m: {"y": sigmoid(m["X"] @ m["beta"])}),
        draws_at_random_rows,
    ),
    "stored_model.py:_observed": (
        lambda: step_elsewhere(written_on_head(ROWS, logistic), {"X": X}),
        'observed=pm.Data("y", ...), with data={"y": ...}',
        lambda: stored(logistic),
    ),
    "stored_model.py:_observed 2": (
        lambda: stored(
            of_rows(lambda e, y: pm.Bernoulli("o", logit_p=e, observed=y, total_size=N))
        ),
        "leave it out",
        lambda: stored(of_rows(lambda e, y: pm.Bernoulli("o", logit_p=e, observed=y))),
    ),
    "stored_model.py:_check_rest": (
        lambda: stored(with_total()),
        "Compute what is needed of all rows before the model",
        lambda: stored(with_total(X.sum())),
    ),
    "stored_model.py:_check_deterministics": (
        lambda: stored(with_mean),
        "Leave it out of the model: after sampling, summarize_rows reads all rows of data=",
        lambda: stored(logistic),
        lambda: summary(lambda m: {"y": m["X"] @ m["beta"]}),
    ),
    "stored_model.py:_read_rows": (
        lambda: stored(many, MANY),
        "Put the rows into the model, without data=",
        lambda: read(in_memory(many, MANY)),
    ),
    "local_sweeps.py:local_bound": local(sweeps.intercepts, "poisson"),
    "local_sweeps.py:check_effects": (
        lambda: beside_another(vars=["tau", "beta", "a"]),
        "leave out vars=",
        beside_another,
    ),
    "local_sweeps.py:check_effects 2": local(sweeps.of_all),
    "local_sweeps.py:check_effects 3": local(sweeps.heavy_tailed),
    "local_sweeps.py:check_effects 4": local(sweeps.ending),
    "setup.py:read": (
        lambda: stored(lambda data: (logistic(data), pm.Normal("c")), vars=lambda m: [m["beta"]]),
        "leave out vars=, or put the rows into the model, without data=",
        lambda: stored(lambda data: (logistic(data), pm.Normal("c"))),
        lambda: read(
            in_memory(lambda data: (logistic(data), pm.Normal("c")), ROWS),
            vars=lambda m: [m["beta"]],
        ),
    ),
    "conditionals.py:effect_places": local(sweeps.slopes),
    "conditionals.py:effect_places 2": (
        in_single_precision,
        "pytensor.config.floatX = 'float64', or take kernel='auto' or 'hamiltonian'",
        lambda: kernel("local", sweeps.intercepts),
    ),
    "conditionals.py:effect_places 3": local(sweeps.coupled),
}

#: What compiles or searches for long. Other tests have the refusals in the quick suite.
SLOW = (
    "undefined.py:check_defined",
    "newton.py:_in_units",
    "objective.py:Objective.precision_blocks",
    "feasibility.py:_bound_of",
    "feasibility.py:_check",
    *(name for name in CASES if name.startswith(("local_sweeps.py", "conditionals.py"))),
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow_cases(*SLOW)
@pytest.mark.parametrize("name", CASES)
def test_what_the_message_says_to_write_is_set_up(name):
    refused, phrase, *instead = CASES[name]
    message, place = refusal(refused)
    assert place == name
    assert phrase in message
    assert instead or message.endswith(OTHERWISE)
    for write in instead:
        write()


#: Places whose refusals and ways out other tests have, or that no model is known to come to: these
#: ask for a report.
ELSEWHERE = {
    "comparison.py:_compare": "agreement/test_mutants.py, likelihoods/test_own.py",
    "compiled.py:check_compiled": "agreement/test_compiled.py",
    "undefined.py:check_possible": "agreement/test_parameter_checks.py",
    "mode_finding.py:_check_scales": "anchor/test_exact_fits.py",
    "validity.py:check_declared": "bounds/test_declared.py",
    "validity.py:_check_concave": "bounds/test_declared.py",
    "bound_choice.py:valid_bounds": "likelihoods/test_own.py",
}


def test_all_refusals_are_in_the_table():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    of_models = {"reading", "likelihoods"}  # reading/test_ways_out.py
    named = set(CASES) | set(ELSEWHERE)
    assert places(*folders - of_models) == named
