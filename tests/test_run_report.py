"""What a run says of itself from what is saved of it: advice where something is wrong only."""

import re

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_flymc import FireflyMH, report
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import logistic_step, sample

CHAINS, DRAWS, ROWS = 4, 500, 100_000


def normal_draws(seed=0):
    return np.random.default_rng(seed).standard_normal((CHAINS, DRAWS, 3))


def run_of(draws=None, **changed):
    """Draws of joint moves in which nothing is wrong, but for statistics that are changed."""
    beta = normal_draws() if draws is None else draws
    shape = beta.shape[:2]
    stats = {
        "n_bright": 1.0,
        "likelihood_queries": 2.0,
        "n_rows": ROWS,
        "acceptance_probability": 0.9,
        "transitions": 2,
        "moved": True,
        "log_weight": 0.0,
        "rescaling_acceptance_probability": np.nan,
        "non_finite_ratios": 0,
        "anchor_moved": False,
        "n_leapfrog_steps": 0,
    } | changed
    full = {name: np.broadcast_to(np.asarray(value), shape) for name, value in stats.items()}
    coords = {"column": ["age", "income", "sex"]}
    return az.from_dict(
        {"posterior": {"beta": beta}, "sample_stats": full},
        coords=coords,
        dims={"beta": ["column"]},
    )


CONDITIONAL = {"log_weight": np.nan, "n_bright": 50.0, "likelihood_queries": 200.0}


@pytest.mark.parametrize(
    ("changed", "moves"),
    [
        ({}, "joint moves"),
        ({"n_leapfrog_steps": 5}, "surrogate moves"),
        (CONDITIONAL, "conditional Metropolis moves"),
        (CONDITIONAL | {"n_leapfrog_steps": 5}, "conditional Hamiltonian moves"),
        (CONDITIONAL | {"n_leapfrog_steps": 5, "local_sweeps": 4}, "local sweeps"),
        (CONDITIONAL | {"slice_width": 1.0}, "conditional slice moves"),
        (
            CONDITIONAL | {"n_leapfrog_steps": 5, "n_rows": 100, "n_bright": 100},
            "Hamiltonian moves, all rows",
        ),
        (
            CONDITIONAL | {"slice_width": 1.0, "n_rows": 100, "n_bright": 100},
            "slice moves, all rows",
        ),
    ],
)
def test_moves_are_named(changed, moves):
    assert report(run_of(**changed)).table["moves"] == moves


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"n_leapfrog_steps": 5, "acceptance_probability": 0.6},
        CONDITIONAL,
        CONDITIONAL | {"n_leapfrog_steps": 5},
        CONDITIONAL | {"slice_width": 1.0, "acceptance_probability": 1.0},
        {"anchor_moved": np.arange(CHAINS)[:, None] == 2, "likelihood_queries": 1000.0},
    ],
)
def test_healthy_runs_have_no_advice(changed):
    assert report(run_of(**changed)).advice == ()


stuck = np.ones((CHAINS, DRAWS), bool)
stuck[1, 100:300] = False
# Pareto's distribution with k = 1.2.
heavy = 1.2 * np.random.default_rng(1).standard_exponential((CHAINS, DRAWS))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"likelihood_queries": 1e7}, "leave out step="),
        ({"n_bright": 20_000.0}, "logarithms of skewed ones"),
        ({"moved": stuck}, "a chain was stuck for 200 of 500 draws"),
        ({"log_weight": heavy}, "Pareto k"),
        ({"acceptance_probability": 0.05}, "Only 5 % of the proposals"),
        ({"non_finite_ratios": 1}, "NaN or infinite at 50 %"),
    ],
)
def test_what_is_wrong_is_said(changed, said):
    (advice,) = report(run_of(**changed)).advice
    assert said in advice


def test_weights_of_joint_moves():
    """The table has the largest index of a chain, unless no weight stands out."""
    k = np.where(np.arange(CHAINS) == 2, 0.6, 0.01)[:, None]
    log_weight = k * np.random.default_rng(1).standard_exponential((CHAINS, DRAWS))
    said = report(run_of(log_weight=log_weight)).table["Pareto k of the weights"]
    assert float(said) == pytest.approx(0.6, abs=0.25)  # of the tail of 500 weights
    for changed in (CONDITIONAL, {"log_weight": np.minimum(log_weight, 0.01)}):
        assert "Pareto k of the weights" not in report(run_of(**changed)).table


def test_few_draws_are_no_modes():
    """Of 40 independent draws a chain R-hat is as large as of chains that have not mixed."""
    draws = next(
        draws
        for draws in (normal_draws(seed)[:, :40] for seed in range(100))
        if az.rhat(draws).max() > 1.05
    )
    (advice,) = report(run_of(draws)).advice
    assert "too few draws of" in advice


def drifting(draws):
    """Chains that wander from one place to another in one parameter, each in its own way."""
    draws = draws.copy()
    draws[..., 1] += np.linspace(0.0, 4.0, DRAWS) * np.array([1.0, -1.0, 2.0, -2.0])[:, None]
    return draws


@pytest.mark.parametrize(
    ("changed", "remedy"),
    [
        ({}, "take FireflyHMC()"),
        (CONDITIONAL, "take FireflyHMC()"),
        (CONDITIONAL | {"n_leapfrog_steps": 5, "n_bright": 0.2 * ROWS}, "FireflyHMC(bound=None)"),
        (CONDITIONAL | {"n_leapfrog_steps": 5, "n_rows": 100, "n_bright": 100}, "leave out step="),
    ],
)
def test_chains_that_have_not_converged(changed, remedy):
    advice, *_ = report(run_of(drifting(normal_draws()), **changed)).advice
    assert "have not converged, beta[income] last of all (R-hat " in advice
    assert remedy in advice and "draws=2000, tune=2000" in advice and "non-centred" not in advice


def test_trajectories_have_no_other_kernel_to_take_but_for_many_effects():
    run = CONDITIONAL | {"n_leapfrog_steps": 5}
    (advice,) = report(run_of(drifting(normal_draws()), **run)).advice
    assert "Firefly" not in advice
    many = np.concatenate([drifting(normal_draws())] + [normal_draws()] * 100, axis=-1)
    for sweeps in (0, 4):
        idata = run_of(many[..., :3], **run, local_sweeps=sweeps)
        idata["posterior"] = (
            idata["posterior"].to_dataset().assign(effect=(("chain", "draw", "group"), many))
        )
        (advice,) = report(idata).advice
        assert ("kernel='local'" in advice) == (sweeps == 0)


def test_chains_in_different_modes():
    apart = normal_draws()
    apart[0, :, 1] += 30.0
    (advice,) = report(run_of(apart)).advice
    assert "settled in different places, by beta[income]" in advice and "several modes" in advice


def test_how_many_more_draws():
    """An effective draw in ten: a chain has fifty of 500, and needs twice as many draws."""
    draws = np.repeat(normal_draws()[:, :50], 10, axis=1)
    (advice,) = report(run_of(draws)).advice
    assert "too few draws of beta[" in advice
    effective, draws = (
        int(number.replace(",", ""))
        for number in re.search(r"([\d,]+) effective.* draws=(\d+)\.", advice).groups()
    )
    # Rounded up to two digits; R-hat may want more than the effective sample size does.
    assert effective == pytest.approx(200, rel=0.3)
    assert draws >= DRAWS * 100 * CHAINS / effective


@pytest.mark.parametrize("is_computed", [False, True])
def test_effects_with_a_centre(is_computed):
    """Those that the model computes from others, without one, need no advice."""
    rng = np.random.default_rng(2)
    log_tau = drifting(normal_draws())[..., 1:2] / 4.0
    z = rng.standard_normal((CHAINS, DRAWS, 40))
    idata = run_of(np.concatenate([log_tau] * 3, axis=-1))
    values = {"tau": np.exp(log_tau[..., 0]), "effect": np.exp(log_tau) * z}
    values |= {"z": z} if is_computed else {}
    dims = "chain", "draw", "group"
    arrays = {name: (dims[: value.ndim], value) for name, value in values.items()}
    idata["posterior"] = idata["posterior"].to_dataset().drop_vars("beta").assign(arrays)
    (advice,) = report(idata).advice
    assert ("write effect as tau * z" in advice) is not is_computed


def test_the_slowest_parameter_and_its_rows():
    draws = normal_draws()
    draws[..., 2] = np.repeat(draws[:, ::10, 2], 10, axis=1)  # each lasts for ten draws
    found = report(run_of(draws, likelihood_queries=10.0)).table
    assert found["slowest parameter"].startswith("beta[sex], ")
    rows = float(found["rows per effective draw"].removeprefix("about "))
    # 2,000 draws that read ten rows each, of which 200 are effective; ArviZ's estimate.
    effective = float(az.ess(draws).min())
    assert rows == pytest.approx(20_000 / effective, abs=1.0)
    assert effective == pytest.approx(200, rel=0.3)


def test_constant_draws_are_not_effective():
    """ArviZ has it that all of them are."""
    draws = normal_draws()
    draws[..., 1] = 3.0
    assert not report(run_of(draws)).table["slowest parameter"].startswith("beta[income]")
    draws[:] = 3.0
    found = report(run_of(draws, moved=False))
    assert ", nan effective draws of 2,000" in found.table["slowest parameter"]
    few, stuck = found.advice
    assert "so few different draws" in few and "stuck for 500 of 500" in stuck


def test_three_draws():
    assert "draw longer" in report(run_of(normal_draws()[:, :3])).advice[0]


@pytest.mark.filterwarnings("error")
def test_draws_that_are_constant_in_each_chain():
    """R-hat divides by their variance, which is zero."""
    draws = np.repeat(normal_draws()[:, :1], 5, axis=1)
    assert "have not converged" in report(run_of(draws)).advice[0]


def test_the_parameter_with_the_largest_r_hat_is_named():
    """Another one has fewer effective draws, and enough of them.

    In one chain the former varies more.
    """
    draws = np.random.default_rng(6).standard_normal((CHAINS, DRAWS, 3))
    draws[..., 2] = np.repeat(draws[:, ::3, 2], 3, axis=1)[:, :DRAWS]
    draws[0, :, 1] *= 1.5
    found = report(run_of(draws))
    assert 1.01 < az.rhat(draws)[1] < 1.05
    assert found.table["slowest parameter"].startswith("beta[sex]")
    assert re.search(
        r"too few draws of beta\[income\] \(R-hat 1\.0\d, the largest\)", *found.advice
    )


@pytest.mark.parametrize(
    ("each_lasts", "said"),
    [
        (1, ""),
        (10, r"too few draws of beta\[\w+\] \(\d+ effective draws of 500\)"),
        (50, r"chain has not converged, beta\[\w+\] last of all \(\d+ effective draws of 500\)"),
    ],
)
def test_one_chain_has_no_r_hat(each_lasts, said):
    """What can be said of it are effective draws."""
    draws = np.repeat(normal_draws()[:1, : DRAWS // each_lasts], each_lasts, axis=1)
    found = report(run_of(draws))
    assert "R-hat" not in str(found) and "nan" not in str(found)
    assert bool(found.advice) == bool(said) and re.search(said, "".join(found.advice))


def test_values_for_each_row_are_no_parameters():
    """Rows of ordered levels are comparisons, more than the levels that are observed."""
    idata, n = run_of(), ROWS // 2000
    chances = np.repeat(np.random.default_rng(3).random((CHAINS, 10, n, 4)), DRAWS // 10, axis=1)
    idata["posterior"] = (
        idata["posterior"].to_dataset().assign(y_probs=(("chain", "draw", "row", "k"), chances))
    )
    assert "y_probs" in report(idata).table["slowest parameter"]
    idata["observed_data"] = xr.Dataset({"y": ("row", np.zeros(n))})
    found = report(idata)
    assert found.table["slowest parameter"].startswith("beta[") and found.advice == ()
    assert found.table["rows"] == "100,000 of 50 observed values"


def test_thinned_chains():
    """The draws between were made, and have read rows, too."""
    draws = np.repeat(normal_draws()[:, ::10], 10, axis=1)  # each lasts for ten draws
    whole = run_of(draws, likelihood_queries=10.0)
    thinned = whole.isel(draw=slice(None, None, 10))
    rows, advised = [], []
    for idata in (whole, thinned):
        found = report(idata)
        rows.append(float(found.table["rows per effective draw"].removeprefix("about ")))
        advised += re.findall(r"draws=(\d+)", " ".join(found.advice))
    # Effective draws are estimated again.
    assert rows[1] == pytest.approx(rows[0], rel=0.2)
    assert float(advised[1]) == pytest.approx(float(advised[0]), rel=0.2)


def test_more_rows_read_than_there_are():
    """Not if all of them are read, in turn: each gradient does that."""
    changed = CONDITIONAL | {"n_rows": 100, "n_bright": 20, "likelihood_queries": 150.0}
    first, *_ = report(run_of(**changed)).advice
    assert first.startswith("A draw read about 150 rows, more than the 100 that there are")
    for fewer in {"n_bright": 100}, {"likelihood_queries": 90.0}:
        assert not any("leave out" in each for each in report(run_of(**changed | fewer)).advice)


def test_a_run_that_was_saved(tmp_path):
    pytest.importorskip("zarr")
    X, y = logistic_rows(2_000, 3)
    idata = sample(*logistic_step(X, y, kernel="joint"), draws=400, tune=100)
    idata.to_zarr(tmp_path / "run")
    found, again = report(idata), report(az.from_zarr(tmp_path / "run"))
    assert found == again and found.advice == ()
    assert found.table["moves"] == "joint moves" and found.table["rows"] == "2,000"
    assert found.table["set-up took"].count(",") == 3
    assert " s (per chain: tuning " in found.table["sampling took"]


def test_what_stages_took():
    """Set-up is that of all chains, tuning and draws are those of one; old files lack them."""
    setup = {"reading_time": 0.2, "mode_time": 1.0, "check_time": 0.05, "choice_time": 150.0}
    elapsed = np.broadcast_to(np.linspace(2.0, 14.5, DRAWS), (CHAINS, DRAWS))
    idata = run_of(**setup, elapsed_time=elapsed)
    idata["sample_stats"].attrs["sampling_time"] = 1234.5
    found = report(idata).table
    parts = "reading 0.2, mode finding 1, checks 0.05, choice of moves 150"
    assert found["set-up took"] == f"151 s ({parts})"
    assert found["sampling took"] == "1,234 s (per chain: tuning 2, draws 12)"
    assert "set-up took" not in report(run_of()).table


def test_notebooks_are_shown_a_table():
    found = report(run_of(acceptance_probability=0.05))
    page = found._repr_html_()
    assert page.count("<tr>") == len(found.table) and page.count("<li>") == 1
    assert "slowest parameter" in repr(found) and repr(found) == str(found)


def test_draws_of_other_steps_are_refused():
    draws = {"x": np.zeros((2, 10))}
    for stats in ({}, {"sample_stats": {"lp": np.zeros((2, 10))}}):
        with pytest.raises(ValueError, match=r"what pm.sample\(step=FireflyMH"):
            report(az.from_dict({"posterior": draws, **stats}))
    with pytest.raises(ValueError, match=r"what pm.sample\(step=FireflyMH"):
        report(draws)  # no result of pm.sample, as a MultiTrace is none


@pytest.mark.filterwarnings("ignore:vars leaves out")
def test_other_steps_beside():
    """Theirs are the statistics of acceptance and of steps that are not in the report."""
    model = logistic_model(*logistic_rows(300, 2))
    with model:
        x, u = pm.Normal("x"), pm.Normal("u")
        steps = [FireflyMH([model["beta"]], kernel="joint"), pm.Metropolis([u]), pm.NUTS([x])]
    idata = sample(model, steps, draws=300)
    assert idata["sample_stats"]["n_steps"].min() > 0  # of NUTS
    found = report(idata).table
    assert found["moves"] == "joint moves"
    accepted = idata["sample_stats"]["acceptance_probability"].mean().item()
    assert found["acceptance"] == f"{accepted:.2f}"
