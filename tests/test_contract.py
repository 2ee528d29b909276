"""What PyMC asks of a step method, what the statistics promise, and what a draw may cost."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytest
from conftest import (
    assert_matches,
    drive,
    from_python,
    log_sigmoid,
    logistic_posterior,
    quadrature,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from pymc_flymc import (
    ExplicitResampling,
    FireflyHMC,
    FireflyMH,
    ImplicitResampling,
    JaakkolaJordan,
    UnsupportedModelError,
)
from pymc_flymc.kernels.brightness import brighten, darken, is_bright, make_brightness

brighten, darken, is_bright = map(from_python, (brighten, darken, is_bright))

SCHEMES = {
    "implicit-by-row": ImplicitResampling(),
    "implicit-single-q": ImplicitResampling(q=0.1),
    "with-replacement": ExplicitResampling(fraction=0.1, scheme="with_replacement"),
    "without-replacement": ExplicitResampling(fraction=0.1, scheme="without_replacement"),
    "cycle": ExplicitResampling(fraction=0.1, scheme="cycle"),
}
STATS = {
    "n_bright": np.int64,
    "likelihood_queries": np.int64,
    "accept": np.float64,
    "random_walk_scale": np.float64,
    "pcn_scale": np.float64,
    "transitions": np.int64,
}


def simulated(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
    y = rng.random(n) < np.exp(log_sigmoid(X @ np.linspace(-0.5, 1.0, d)))
    return X, y.astype(int)


def logistic_model(n=400, d=3, seed=0):
    X, y = simulated(n, d, seed)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=d)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    return model


def build(model, **settings):
    with model:
        return FireflyMH(**settings)


@pytest.fixture(scope="module")
def shared():
    """A model, and one step on it for each scheme, for tests that leave the step as it was."""
    model = logistic_model()
    steps = {}

    def get(scheme="implicit-by-row"):
        if scheme not in steps:
            steps[scheme] = build(
                model, brightness=SCHEMES[scheme], bound=JaakkolaJordan(xi=1.5, slack=0.0)
            )
        return model, steps[scheme]

    return get


def sample(model, step, **kwargs):
    defaults = dict(tune=60, draws=80, chains=2, cores=1, random_seed=11, progressbar=False)
    options = defaults | dict(compute_convergence_checks=False) | kwargs
    with model:
        return pm.sample(step=step, **options)


def identical(a, b):
    for group in ("posterior", "sample_stats"):
        for name, values in a[group].data_vars.items():
            if name not in ("sampling_time",):
                np.testing.assert_array_equal(values.values, b[group][name].values, err_msg=name)


# --- seeds, chains, processes ---------------------------------------------------------------------


def test_same_seed_same_draws_whatever_the_cores(shared):
    model, step = shared()
    one = sample(model, step, cores=1)
    identical(one, sample(model, step, cores=2))
    identical(one, sample(model, step, cores=1))  # nothing stays behind in the step
    other = sample(model, step, random_seed=12)
    assert not np.array_equal(one.posterior["beta"].values, other.posterior["beta"].values)
    chains = one.posterior["beta"].values
    assert not np.array_equal(chains[0], chains[1])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_chains_are_independent_of_earlier_ones(shared, scheme):
    model, step = shared(scheme)
    point = model.initial_point()

    def run(seed):
        return drive(step, point, tune=30, draws=30, seed=seed)

    alone = run(2)
    run(1)
    after = run(2)
    np.testing.assert_array_equal(alone[0], after[0])
    for key in STATS:
        np.testing.assert_array_equal(alone[1][key], after[1][key])


@pytest.mark.parametrize("method", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_start_methods(method, tmp_path):
    """Workers that share nothing make the same draws as one process; no file stays behind.

    They do so with data that have changed since the step was built, before it has sampled.
    """
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path.insert(0, {str(Path(__file__).parent)!r})
            import numpy as np
            import pymc as pm
            from test_contract import build, sample, simulated

            if __name__ == "__main__":
                X, y = simulated(400)
                with pm.Model() as model:
                    beta = pm.Normal("beta", 0.0, 1.0, shape=3)
                    observed = pm.Data("observed", y)
                    pm.Bernoulli("y", logit_p=X @ beta, observed=observed)
                step = build(model)
                with model:
                    pm.set_data({{"observed": 1 - y}})
                two = sample(model, step, cores=2, mp_ctx={method!r})
                one = sample(model, build(model), cores=1)
                for name in ("n_bright", "likelihood_queries"):
                    a, b = one.sample_stats[name].values, two.sample_stats[name].values
                    np.testing.assert_array_equal(a, b)
                a, b = one.posterior["beta"].values, two.posterior["beta"].values
                np.testing.assert_array_equal(a, b)
                print("as one")
            """
        )
    )
    folder = tmp_path / "tmp"
    folder.mkdir()
    result = subprocess.run(
        [sys.executable, str(script)],
        env=dict(os.environ, TMPDIR=str(folder)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0 and "as one" in result.stdout, result.stdout + result.stderr
    assert "Multiprocess sampling" in result.stderr, "PyMC fell back to one process"
    assert not list(folder.glob("pymc-flymc-*"))


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # a zombie has ended; nobody has asked for its exit code


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks processes up in /proc")
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_chains_end_with_a_parent_that_is_killed(method, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing, os, signal, sys
            sys.path.insert(0, {str(Path(__file__).parent)!r})
            from test_contract import JaakkolaJordan, build, logistic_model, sample

            def kill(trace, draw):
                if draw.draw_idx == 100:
                    print(*(p.pid for p in multiprocessing.active_children()), flush=True)
                    os.kill(os.getpid(), signal.SIGKILL)

            if __name__ == "__main__":
                model = logistic_model()
                step = build(model, bound=JaakkolaJordan(xi=1.5, slack=0.0))
                sample(model, step, draws=10**6, cores=2, mp_ctx={method!r}, callback=kill)
            """
        )
    )
    # Into a file: chains that go on would keep a pipe open.
    with (tmp_path / "chains").open("w") as out:
        result = subprocess.run([sys.executable, str(script)], stdout=out, timeout=300)
    assert result.returncode == -signal.SIGKILL
    chains = [int(pid) for pid in (tmp_path / "chains").read_text().split()]
    try:
        assert len(chains) == 2
        end = time.monotonic() + 30.0
        while any(map(is_running, chains)) and time.monotonic() < end:
            time.sleep(0.05)
        assert not any(map(is_running, chains))
    finally:
        for pid in filter(is_running, chains):
            os.kill(pid, signal.SIGKILL)


def test_pickle_is_small_and_its_file_goes_with_the_step(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sizes = {}
    build(logistic_model(100))  # graphs that something is compiled from take notes of that
    for n in (400, 40_000):
        step = build(logistic_model(n))
        sizes[n] = len(cloudpickle.dumps(step))
        files = set(tmp_path.glob("pymc-flymc-*"))
        assert files, "the rows travel as files"
        cloudpickle.dumps(step)
        assert set(tmp_path.glob("pymc-flymc-*")) == files, "one copy, however many pickles"
        del step
        assert not set(tmp_path.glob("pymc-flymc-*"))
    # Lengths of integers may differ by a few bytes; the data of 40,000 rows are 1.9 MB.
    assert abs(sizes[40_000] - sizes[400]) < 200
    assert sizes[40_000] < 100_000


# --- state --------------------------------------------------------------------------------------


def advance(step, point, n):
    out = []
    for _ in range(n):
        point, [stats] = step.step(point)
        out.append((*np.concatenate([np.ravel(v) for v in point.values()]), *stats.values()))
    return point, np.array(out)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("tuning", [True, False])
def test_state_round_trip(shared, scheme, tuning):
    model, step = shared(scheme)
    step.setup_chain(np.random.default_rng(0), 100, 100)
    step.tune = True
    point, _ = advance(step, model.initial_point(), 15)
    if not tuning:
        step.stop_tuning()
    saved, here = step.sampling_state, {k: v.copy() for k, v in point.items()}
    _, expected = advance(step, point, 25)
    step.sampling_state = saved
    _, again = advance(step, here, 25)
    np.testing.assert_array_equal(expected, again)
    # ... and after a journey of the state.
    step.sampling_state = pickle.loads(pickle.dumps(saved))
    _, again = advance(step, here, 25)
    np.testing.assert_array_equal(expected, again)


@pytest.mark.parametrize("tuning", [True, False])
def test_running_step_survives_a_pickle(shared, tuning):
    model, step = shared("cycle")
    step.setup_chain(np.random.default_rng(0), 100, 100)
    step.tune = True
    point, _ = advance(step, model.initial_point(), 15)
    if not tuning:
        step.stop_tuning()
    moved, here = (
        cloudpickle.loads(cloudpickle.dumps(step)),
        {k: v.copy() for k, v in point.items()},
    )
    _, expected = advance(step, point, 25)
    _, again = advance(moved, here, 25)
    np.testing.assert_array_equal(expected, again)


def test_state_moves_to_a_fresh_step(shared):
    """A state saved in one process continues in another, tuning included."""
    model, step = shared()
    source = build(model, bound=step.bounds[0])  # its pickles are good for as long as it lives
    fresh = cloudpickle.loads(cloudpickle.dumps(source))
    for tuning in (True, False):
        step.setup_chain(np.random.default_rng(0), 100, 100)
        step.tune = True
        point, _ = advance(step, model.initial_point(), 15)
        if not tuning:
            step.stop_tuning()
        saved, here = step.sampling_state, {k: v.copy() for k, v in point.items()}
        _, expected = advance(step, point, 25)
        fresh._chain = fresh.tuning = None  # as it came from the constructor
        fresh.sampling_state = saved
        _, again = advance(fresh, here, 25)
        np.testing.assert_array_equal(expected, again, err_msg=f"tuning: {tuning}")


def test_state_does_not_grow_with_the_rows():
    sizes = []
    for n in (2_000, 50_000):
        model = logistic_model(n)
        step = build(model)
        drive(step, model.initial_point(), tune=20, draws=5)
        sizes.append(len(pickle.dumps(step.sampling_state)) - 12 * step._chain.n_bright)
    assert abs(sizes[0] - sizes[1]) < 1_000


# --- statistics -------------------------------------------------------------------------------


def test_statistics_are_there(shared):
    model, step = shared()
    idata = sample(model, step, draws=50)
    stats = idata.sample_stats
    for name, dtype in STATS.items():
        assert stats[name].dtype == dtype
        assert stats[name].shape == (2, 50)
    assert np.all((stats["accept"] >= 0) & (stats["accept"] <= 1))
    assert np.all((stats["n_bright"] >= 0) & (stats["n_bright"] <= 400))
    assert {name: dtype for name, (dtype, _) in step.stats_dtypes_shapes.items()} == STATS


def test_queries_without_bound():
    model = logistic_model(150)
    step = build(model, bound=None, transitions=7)
    _, stats = drive(step, model.initial_point(), tune=0, draws=20)
    expected = np.full(20, 7 * 150)
    expected[0] += 150  # the starting pass
    np.testing.assert_array_equal(stats["likelihood_queries"][0], expected)
    assert np.all(stats["n_bright"] == 150)


@pytest.mark.parametrize("scheme", ["with-replacement", "without-replacement", "cycle"])
def test_queries_of_explicit_schemes(shared, scheme):
    """One transition reads the bright rows once and the subset once: no more, no less."""
    model, _ = shared()
    step = build(
        model,
        bound=JaakkolaJordan(xi=1.5, slack=0.0),
        brightness=SCHEMES[scheme],
        transitions=1,
    )
    _, stats = drive(step, model.initial_point(), tune=0, draws=300)
    queries, bright = stats["likelihood_queries"][0], stats["n_bright"][0]
    np.testing.assert_array_equal(queries[1:], bright[:-1] + 40)
    assert len(set(bright)) > 5


@pytest.mark.parametrize("q", [0.1, 1.0])
def test_queries_of_implicit_schemes(shared, q):
    """A transition reads the bright rows, and a Binomial(dark, q) number of dark ones."""
    model, _ = shared()
    step = build(
        model,
        bound=JaakkolaJordan(xi=1.5, slack=0.0),
        brightness=ImplicitResampling(q=q),
        transitions=1,
    )
    _, stats = drive(step, model.initial_point(), tune=0, draws=3000)
    queries, bright = stats["likelihood_queries"][0], stats["n_bright"][0]
    proposed, dark = queries[1:] - bright[:-1], 400 - bright[:-1]
    if q == 1.0:
        np.testing.assert_array_equal(proposed, dark)
    # Independent binomials: four standard errors of their sum.
    surprise = proposed.sum() - q * dark.sum()
    assert abs(surprise) <= 4 * np.sqrt(q * (1 - q) * dark.sum())


# --- adaptation -----------------------------------------------------------------------------------


def test_adaptation_ends_with_tuning(shared):
    model, step = shared()
    step.setup_chain(np.random.default_rng(0), 150, 150)
    step.tune = True
    point = model.initial_point()

    def settings_now():
        moves = step._chain.moves
        learnt = (*moves.log_scale, *moves.weight, *moves.gain)
        return *(float(x) for x in learnt), step.tuning.transitions

    first = None
    for _ in range(150):
        point, _ = step.step(point)
        first = first or settings_now()
    assert settings_now()[0] != first[0], "tuning moved the scale"
    step.stop_tuning()
    point, _ = step.step(point)
    frozen = settings_now()
    geometry = [a.copy() for a in step.target.geometry]
    statistics = step.target.statistics.copy()
    for _ in range(150):
        point, [stats] = step.step(point)
        assert settings_now() == frozen
        assert stats["transitions"] == frozen[-1]
    assert step._chain.moves.gain[0] == 0.0
    np.testing.assert_array_equal(statistics, step.target.statistics)
    for before, after in zip(geometry, step.target.geometry, strict=True):
        np.testing.assert_array_equal(before, after)


def test_adaptation_is_frozen_in_the_draws_of_parallel_chains(shared):
    model, step = shared()
    stats = sample(model, step, cores=2, draws=60).sample_stats
    for name in ("random_walk_scale", "pcn_scale", "transitions"):
        assert np.all(stats[name].values == stats[name].values[:, :1])


def test_no_tuning(shared):
    model, step = shared()
    for cores in (1, 2):
        stats = sample(model, step, tune=0, draws=40, cores=cores).sample_stats
        assert np.all(stats["random_walk_scale"].values == 2.38 / np.sqrt(3))


# --- other steps in the model -----------------------------------------------------------------


def hyper_model():
    X, y = simulated(40, 1)
    with pm.Model() as model:
        log_tau = pm.Normal("log_tau", 0.0, 1.0)
        beta = pm.Normal("beta", 0.0, pm.math.exp(log_tau), shape=1)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)

    def log_density(points):  # (log_tau, beta)
        log_tau, beta = points.T
        likelihood = logistic_posterior(X, y, np.inf)(beta[:, None])
        return likelihood - 0.5 * log_tau**2 - log_tau - 0.5 * (beta * np.exp(-log_tau)) ** 2

    return model, quadrature(log_density, [-8.0, -8.0], [8.0, 8.0])


@pytest.mark.parametrize("bound", [JaakkolaJordan(xi=1.5, slack=0.0), None])
def test_prior_only_variable_of_another_step(bound):
    model, reference = hyper_model()
    with model:
        step = [
            FireflyMH([model["beta"]], bound=bound, transitions=10),
            pm.Slice([model["log_tau"]]),
        ]
    idata = sample(model, step, tune=500, draws=6000, chains=2, cores=2)
    draws = np.stack([idata.posterior["log_tau"].values, idata.posterior["beta"].values[..., 0]], 2)
    assert_matches(draws, reference)


@pytest.mark.parametrize("cls", [FireflyMH, FireflyHMC])
def test_scales_that_underflow_are_outside_the_support(cls):
    """PyMC's check of sigma > 0 raises an exception, which native code cannot pass on."""
    X, y = simulated(40, 1)
    with pm.Model():
        tau = pm.HalfNormal("tau", 1.0)
        beta = pm.Normal("beta", 0.0, tau, shape=1)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        step = cls(bound=JaakkolaJordan())
    step.setup_chain(np.random.default_rng(0), 0, 1)
    chain = step._chain
    for log_tau, finite in ((-1.0, True), (-800.0, False)):
        log_density = chain.log_density_at(chain.whiten(np.array([log_tau, 0.1])))
        assert np.isfinite(log_density) if finite else log_density == -np.inf


def test_foreign_step_on_the_likelihood_is_refused():
    X, y = simulated(50, 2)
    with pm.Model():
        a = pm.Normal("a", 0.0, 1.0)
        b = pm.Normal("b", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=X[:, 0] * a + X[:, 1] * b, observed=y)
        with pytest.raises(UnsupportedModelError, match=r"depends on \['b'\].*add \['b'\] to vars"):
            FireflyMH([a])


def test_variables_moved_from_outside_get_their_brightness_anew(shared):
    """Whoever moves theta between steps gets a valid chain: z is redrawn, caches recomputed."""
    model, step = shared()
    step.setup_chain(np.random.default_rng(0), 0, 10)
    step.stop_tuning()
    point, _ = step.step(model.initial_point())
    moved = {"beta": point["beta"] + 0.1}
    queries = step.step(moved)[1][0]["likelihood_queries"]
    assert queries > 400
    check_caches(step, simulated(400)[0])


# --- points -------------------------------------------------------------------------------------


def test_initvals_are_honoured(shared):
    model, _ = shared()
    step = build(model, transitions=1)
    start = np.array([4.0, -4.0, 4.0])
    idata = sample(model, step, tune=0, draws=2, initvals={"beta": start})
    sd = np.linalg.norm(step.target.geometry.factor, axis=1)
    # One random-walk or pCN transition moves by a few posterior sds; the anchor is far away.
    anchor = step.target.geometry.centre
    first = idata.posterior["beta"].values[:, 0]
    assert np.all(np.abs(start - anchor) > 20 * sd)
    assert np.all(
        np.linalg.norm((first - start) / sd, axis=1) < 0.5 * np.min(abs(start - anchor) / sd)
    )


def test_initvals_that_are_not_finite(shared):
    _, step = shared()
    step.setup_chain(np.random.default_rng(0), 0, 1)
    with pytest.raises(ValueError, match=r"the start has nan for beta\[1\]: initial values"):
        step.step({"beta": np.array([0.0, np.nan, 0.0])})


def test_starts_are_overdispersed(shared):
    """60 first points in whitened coordinates: sd 2 before the first transition, and distinct."""
    model, step = shared()
    target, starts = step.target, []
    for seed in range(60):
        step.setup_chain(np.random.default_rng(seed), 0, 1)
        step.tuning.transitions = 1
        point, _ = step.step(model.initial_point())
        v = np.linalg.solve(target.geometry.factor, point["beta"] - target.geometry.centre)
        starts.append(v)
    starts = np.array(starts)
    assert len(np.unique(starts[:, 0])) == 60
    # A chi-square law has mean 180 (sd 1) for the posterior; far beyond its 1e-6 quantile.
    assert np.sum(starts**2) > chi2(180).isf(1e-6)


def test_given_anchor(shared):
    model, _ = shared()
    anchor = np.array([0.3, 0.1, -0.2])
    step = build(model, anchor={"beta": anchor})
    # The statistics are kept around the coefficients at which the bound touches.
    np.testing.assert_array_equal(step.target.statistics[1:4], anchor)


def test_points_keep_their_form():
    """Transformed, 0-d and 2-d variables: all keys, in order, of exact dtype and shape."""
    X, y = simulated(200, 4)
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        mu = pm.Normal("mu", 0.0, 1.0)
        lam = pm.Uniform("lam", 0.5, 2.0, shape=4)
        raw = pm.Normal("raw", 0.0, 1.0, shape=(2, 2))
        beta = pm.Deterministic("beta", mu + tau * lam * raw.reshape((4,)))
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    step = build(model, transitions=20)
    before = model.initial_point()
    kept = {k: np.array(v) for k, v in before.items()}
    step.setup_chain(np.random.default_rng(0), 0, 1)
    after, _ = step.step(before)
    assert list(after) == list(before)
    for name, value in after.items():
        assert isinstance(value, np.ndarray)
        assert (value.dtype, value.shape) == (kept[name].dtype, kept[name].shape)
        np.testing.assert_array_equal(before[name], kept[name], err_msg="changed in place")
        assert not np.array_equal(value, kept[name])
    idata = sample(model, step, draws=40, var_names=["tau", "raw"])
    assert set(idata.posterior.data_vars) == {"tau", "raw"}
    assert idata.posterior["tau"].shape == (2, 40)
    assert idata.posterior["raw"].shape == (2, 40, 2, 2)
    assert np.all(idata.posterior["tau"] > 0)


def test_single_precision_variables():
    with pytensor.config.change_flags(floatX="float32", warn_float64="ignore"):
        X, y = simulated(60, 1)
        with pm.Model() as model:
            beta = pm.Normal("beta", 0.0, 1.0, shape=1)
            pm.Bernoulli("y", logit_p=pm.math.dot(X.astype("float32"), beta), observed=y)
            step = FireflyMH(transitions=20)
        point = model.initial_point()
        assert point["beta"].dtype == np.float32
        draws, stats = drive(step, point, tune=100, draws=4000)
        after, _ = step.step(point)
    assert after["beta"].dtype == np.float32
    # The chain keeps its own state in double precision: no draw is taken for a foreign move.
    assert stats["likelihood_queries"].mean() < 20 * 60
    assert_matches(draws, quadrature(logistic_posterior(X, y, 1.0), [-8.0], [8.0]))


def test_progress_bar(shared, capsys):
    model, step = shared()
    sample(model, step, progressbar=True, cores=1)
    sample(model, step, progressbar=True, cores=2)
    out = capsys.readouterr()
    assert "Traceback" not in out.out + out.err
    columns, initial = step._progressbar_config(2)
    assert [c.get_table_column().header for c in columns] == ["Bright rows", "Rows read"]
    (update,) = step._make_progressbar_update_functions()
    stats = {"n_bright": 3, "likelihood_queries": 5, "accept": 0.1}
    assert update(stats) == {"n_bright": 3, "likelihood_queries": 5}
    assert set(initial) == set(update(stats))


# --- cost and caches ------------------------------------------------------------------------------


def test_queries_do_not_grow_with_the_rows():
    """25 times the rows: a tangent bound leaves the bright rows about D, whatever N."""
    per_transition = []
    for n in (2_000, 50_000):
        model = logistic_model(n)
        step = build(model, transitions=50)
        _, stats = drive(step, model.initial_point(), tune=100, draws=300)
        per_transition.append(stats["likelihood_queries"].sum() / stats["transitions"].sum())
    # The design's estimate of the bright rows is of the order of D = 3 and falls towards its limit
    # as N grows; an O(N) part, even of a hundredth of the rows, would show as 500.
    assert per_transition[1] < 1.5 * per_transition[0]
    assert per_transition[1] < 30


def test_memory_written_by_a_draw_does_not_grow_with_the_rows():
    """Buffers of row size are filled with a mark: draws may write to a few places only."""
    n = 50_000
    model = logistic_model(n)
    step = build(model, transitions=50)
    step.setup_chain(np.random.default_rng(0), 0, 1)
    point, _ = step.step(model.initial_point())
    point, _ = step.step(point)
    chain, mark = step._chain, -12345
    used = chain.n_bright
    buffers = [chain.bright.index, chain.bright.log_odds, chain.state.log_odds_new]
    for buffer in buffers:
        buffer[used:] = mark
    slot = chain.bright.slot.copy()
    queries = step.step(point)[1][0]["likelihood_queries"]
    for buffer in buffers:
        assert np.count_nonzero(buffer[used:] != mark) <= queries
    assert np.count_nonzero(slot != chain.bright.slot) <= queries
    assert queries < n / 10


def check_caches(step, X):
    chain = step._chain
    state, bright, target = chain.state, chain.bright, step.target
    w = np.empty_like(state.w)
    density = target.density(state.theta, chain.statistics, w)
    assert density == pytest.approx(state.log_density[0], rel=1e-9)
    np.testing.assert_allclose(w, state.w, rtol=1e-9)
    geometry = target.geometry
    np.testing.assert_allclose(
        geometry.centre + geometry.factor @ state.v, state.theta, rtol=1e-9, atol=1e-12
    )
    n = chain.n_bright
    index = bright.index[:n]
    assert len(set(index)) == n
    np.testing.assert_array_equal(bright.slot[index], np.arange(1, n + 1))
    assert np.count_nonzero(bright.slot) == n
    eta = X[index] @ state.w
    curvature, constant = target.data.rows.constants[index].T
    gap = curvature * eta**2 + constant - np.log(2.0 * np.cosh(0.5 * eta))
    odds = np.log(np.expm1(gap))
    np.testing.assert_allclose(bright.log_odds[:n], odds, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_caches_do_not_drift(shared, scheme):
    model, step = shared(scheme)
    drive(step, model.initial_point(), tune=200, draws=1500)
    check_caches(step, simulated(400)[0])


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 19)), max_size=120))
def test_index_of_bright_rows(operations):
    """Brighten and darken in any order: the set, its places and its cached odds stay right."""
    bright, model = make_brightness(20), {}
    for brightens, k in operations:
        if brightens and not is_bright(bright, k):
            model[k] = 0.5 * k + len(model)
            brighten(bright, k, model[k])
        elif not brightens and model:
            i = k % len(model)
            del model[int(bright.index[i])]
            darken(bright, i)
        n = int(bright.count[0])
        assert n == len(model) == np.count_nonzero(bright.slot)
        assert {
            int(r): o for r, o in zip(bright.index[:n], bright.log_odds[:n], strict=True)
        } == model
        np.testing.assert_array_equal(bright.slot[bright.index[:n]], np.arange(1, n + 1))
        for row in range(20):
            assert is_bright(bright, row) == (row in model)
