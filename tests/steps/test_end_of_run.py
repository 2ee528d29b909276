"""What would help is said when PyMC says that chains have not converged, and only then."""

import logging

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import report
from pymc_flymc.steps import running
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import logistic_step, sample, step_of


def said(caplog):
    """Lines of the log, after those of the set-up, that are warnings of ours."""
    return [
        record.getMessage().removeprefix("Firefly: ")
        for record in caplog.records
        if record.name == "pymc.flymc" and record.levelno >= logging.WARNING
    ]


@pytest.fixture(scope="module")
def slow():
    """A step that moves a little in each draw."""
    model = logistic_model(*logistic_rows(2_000, 3))
    return model, step_of(model, kernel="metropolis", transitions=1)


@pytest.mark.parametrize("cores", [1, 2])
def test_it_is_what_the_report_says_and_is_said_once(slow, caplog, cores):
    idata = sample(*slow, draws=120, cores=cores, compute_convergence_checks=True)
    (line,) = said(caplog)
    assert line == report(idata).advice[0] and ("too few" in line or "not converged" in line)


def test_healthy_runs_are_silent(caplog):
    X, y = logistic_rows(2_000, 3)
    model, step = logistic_step(X, y, kernel="joint")
    sample(model, step, draws=400, tune=100, compute_convergence_checks=True)
    assert not said(caplog)
    assert any(isinstance(h, running._Advice) for h in logging.getLogger("pymc").handlers)


def test_nothing_is_said_unless_pymc_checks(slow, caplog):
    sample(*slow, draws=120)
    assert not said(caplog)


def test_nothing_is_said_of_other_steps(slow, caplog):
    sample(*slow, draws=120)  # from here on PyMC's warnings are looked at
    with pm.Model() as model:
        x = pm.Normal("x")
        step = pm.Metropolis([x], S=np.array([1e-6]), tune=False)
    sample(model, step, draws=120, compute_convergence_checks=True)
    assert "effective sample size" in caplog.text and not said(caplog)


def test_draws_are_not_lost_for_an_error(slow, monkeypatch, capsys):
    def fail(idata):
        raise ValueError("no advice today")

    monkeypatch.setattr(running, "Run", fail)
    idata = sample(*slow, draws=120, compute_convergence_checks=True)
    assert idata.posterior.sizes["draw"] == 120
    assert "no advice today" in capsys.readouterr().err
