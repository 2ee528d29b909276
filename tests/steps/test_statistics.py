"""What the statistics promise, and what a draw may cost."""

import numpy as np
import pymc as pm
import pytest
from pymc.stats.convergence import SamplerWarning

from pymc_flymc import (
    FireflyHMC,
    FireflyMALA,
    FireflyMH,
    FireflySlice,
    ImplicitResampling,
    JaakkolaJordan,
)
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import SCHEMES, STATS, drive, sample, step_of


def test_statistics_are_there(shared):
    model, step = shared()
    idata = sample(model, step, draws=50)
    stats = idata.sample_stats
    for name, dtype in STATS.items():
        assert stats[name].dtype == dtype
        assert stats[name].shape == (2, 50)
    assert np.all((stats["acceptance_probability"] >= 0) & (stats["acceptance_probability"] <= 1))
    assert np.all((stats["n_bright"] >= 0) & (stats["n_bright"] <= 400))
    given = {name: dtype for name, (dtype, _) in step.stats_dtypes_shapes.items()}
    assert given == STATS | {"warning": SamplerWarning}  # which PyMC drops
    assert "warning" not in stats


def test_no_step_of_pymc_has_a_statistic_of_the_same_name():
    """In one model PyMC would put them side by side, or lose one where it renames one of NUTS."""
    kinds = [kind for kind in vars(pm.step_methods).values() if isinstance(kind, type)]
    theirs = {name for kind in kinds for name in getattr(kind, "stats_dtypes_shapes", ())}
    with pm.Model() as model:
        step = pm.NUTS([pm.Normal("x")])
    theirs |= set(sample(model, step, tune=5, draws=5).sample_stats)
    assert {"accept", "scaling", "nstep_in", "tree_size", "n_steps", "lp"} <= theirs
    for kind in (FireflyMH, FireflyHMC, FireflyMALA, FireflySlice):
        assert set(kind.stats_dtypes_shapes) & theirs == {"warning"}


def test_queries_without_bound():
    model = logistic_model(*logistic_rows(150))
    step = step_of(model, bound=None, transitions=7)
    _, stats = drive(step, model.initial_point(), tune=0, draws=20)
    expected = np.full(20, 7 * 150)
    expected[0] += 150  # the starting pass
    np.testing.assert_array_equal(stats["likelihood_queries"][0], expected)
    assert np.all(stats["n_bright"] == 150)


@pytest.mark.parametrize("scheme", ["with-replacement", "without-replacement", "cycle"])
def test_queries_of_explicit_schemes(shared, scheme):
    """One transition reads the bright rows once and the subset once: no more, no less."""
    model, _ = shared()
    step = step_of(
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
    step = step_of(
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


def test_progress_bar(shared, capsys):
    model, step = shared()
    sample(model, step, progressbar=True, cores=1)
    sample(model, step, progressbar=True, cores=2)
    out = capsys.readouterr()
    assert "Traceback" not in out.out + out.err
    columns, initial = step._progressbar_config(2)
    assert [c.get_table_column().header for c in columns] == ["Bright rows", "Rows read"]
    (update,) = step._make_progressbar_update_functions()
    stats = {"n_bright": 3, "likelihood_queries": 5, "acceptance_probability": 0.1}
    assert update(stats) == {"n_bright": 3, "likelihood_queries": 5}
    assert set(initial) == set(update(stats))


def test_queries_do_not_grow_with_the_rows():
    """25 times the rows: a tangent bound leaves the bright rows about D, whatever N."""
    per_transition = []
    for n in (2_000, 50_000):
        model = logistic_model(*logistic_rows(n))
        step = step_of(model, transitions=50)
        _, stats = drive(step, model.initial_point(), tune=100, draws=300)
        per_transition.append(stats["likelihood_queries"].sum() / stats["transitions"].sum())
    # The design's estimate of the bright rows is of the order of D = 3 and falls towards its limit
    # as N grows; an O(N) part, even of a hundredth of the rows, would show as 500.
    assert per_transition[1] < 1.5 * per_transition[0]
    assert per_transition[1] < 30


def test_memory_written_by_a_draw_does_not_grow_with_the_rows():
    """Buffers of row size are filled with a mark: draws may write to a few places only."""
    n = 50_000
    model = logistic_model(*logistic_rows(n))
    step = step_of(model, transitions=50)
    step.setup_chain(np.random.default_rng(0), 0, 1)
    point, _ = step.step(model.initial_point())
    point, _ = step.step(point)
    chain, mark = step.chain, -12345
    used = chain.n_bright
    buffers = [chain.bright.index, chain.bright.log_factor, chain.state.log_factor_new]
    for buffer in buffers:
        buffer[used:] = mark
    slot = chain.bright.slot.copy()
    queries = step.step(point)[1][0]["likelihood_queries"]
    for buffer in buffers:
        assert np.count_nonzero(buffer[used:] != mark) <= queries
    assert np.count_nonzero(slot != chain.bright.slot) <= queries
    assert queries < n / 10
