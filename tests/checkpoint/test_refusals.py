"""Folders that are not this run's: refused, with what differs."""

import logging
import multiprocessing
import os
import shutil
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions.transforms import Interval
from pymc.sampling.parallel import ParallelSamplingError
from pytensor.graph.op import Op

from pymc_flymc import FireflyHMC, FireflyMH, JaakkolaJordan, checkpoint
from pymc_flymc.anchor.mode_finding import ModeFinder
from pymc_flymc.checkpoint import hold
from pymc_flymc.graphs.content_hash import structure_of
from pymc_flymc.reading.fingerprint import Fingerprint
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import sample, step_of

BOUND = JaakkolaJordan(xi=1.5, slack=0.0)


def model_of(n=400, prior_sd=1.0, shift=0.0):
    X, y = logistic_rows(n)
    return logistic_model(X + shift, y, prior_sd)


def kept_step(model, folder, cls=FireflyMH, **settings):
    return step_of(model, cls, **{"bound": BOUND, "checkpoint": folder} | settings)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The folder of a run of 60 draws of tuning and 80 others, and the model."""
    folder, model = tmp_path_factory.mktemp("run"), model_of()
    sample(model, kept_step(model, folder))
    return folder, model


@pytest.mark.parametrize(
    ("other", "settings", "message"),
    [
        ({"prior_sd": 2.0}, {}, "other model, data"),
        ({"n": 399}, {}, "other model, data"),
        ({"shift": 1.0}, {}, "other data"),
        ({}, {"cls": FireflyHMC}, r"other step \(FireflyMH there, FireflyHMC here\)"),
        ({}, {"transitions": 3}, r"other transitions \(None there, 3 here\)"),
        ({}, {"anchor": {"beta": np.zeros(3)}}, "other anchor"),
        (
            {},
            {"bound": JaakkolaJordan(xi=1.5, slack=1.0)},
            r"slack=0.0\) there, .*slack=1.0\) here",
        ),
    ],
)
def test_another_run_is_refused_when_the_step_is_built(begun, other, settings, message):
    folder, model = begun
    with pytest.raises(ValueError, match=message):
        kept_step(model_of(**other) if other else model, folder, **settings)


def test_other_versions_are_refused(begun, monkeypatch):
    folder, model = begun
    known = checkpoint.version
    monkeypatch.setattr(checkpoint, "version", lambda name: "9" if name == "numpy" else known(name))
    with pytest.raises(ValueError, match=r"other version of numpy \(.* there, 9 here\)"):
        kept_step(model, folder)


def test_other_numbers_before_sampling_are_refused(begun, monkeypatch):
    folder, model = begun
    monkeypatch.setattr(checkpoint, "identity_of_target", lambda *_: "another processor's")
    with pytest.raises(ValueError, match="to the last bit"):
        kept_step(model, folder)


def test_other_code_of_an_operation_is_refused(begun, monkeypatch):
    """Of a user's own operations nothing but the name can be told."""
    folder, _ = begun
    model = model_of(prior_sd=2.0)
    for name in ("structure", "content_hash"):
        monkeypatch.setattr(Fingerprint, name, getattr(Fingerprint.of(begun[1]), name))
    with pytest.raises(ValueError, match="to the last bit"):
        kept_step(model, folder)


class Turned(Op):
    """Computes columns of a design, in a way that its name does not tell."""

    itypes: ClassVar[list[Any]] = [pt.dmatrix]
    otypes: ClassVar[list[Any]] = [pt.dmatrix]
    sign = 1.0

    def perform(self, node, inputs, outputs):
        outputs[0][0] = self.sign * inputs[0]


def test_other_code_of_a_design_is_refused_without_a_bound(tmp_path, monkeypatch):
    """There no sums over rows differ."""
    X, y = logistic_rows(400)
    for sign in (1.0, -1.0):
        monkeypatch.setattr(Turned, "sign", sign)
        model = logistic_model(Turned()(pt.as_tensor(X)), y)
        if sign > 0.0:
            kept_step(model, tmp_path, bound=None)
    with pytest.raises(ValueError, match="to the last bit"):
        kept_step(model, tmp_path, bound=None)


def test_data_that_change_are_refused(tmp_path):
    X, y = logistic_rows(300)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        pm.Bernoulli("y", logit_p=X @ beta, observed=pm.Data("observed", y))
    step = kept_step(model, tmp_path)
    with model:
        pm.set_data({"observed": 1 - y})
    with pytest.raises(ValueError, match="other data"):
        sample(model, step)


@pytest.mark.parametrize("bound", [BOUND, None])
def test_files_that_change_are_refused(bound, tmp_path):
    """Rows that are in no sample of a map, too. Without a bound no statistics tell of them."""
    X, y = logistic_rows(3000)
    for sign in (1, -1):
        X[1::3] *= sign
        X[2::3] *= sign
        np.save(tmp_path / "X.npy", X)
        model = logistic_model(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
        if sign > 0:
            kept_step(model, tmp_path / "run", bound=bound)
    with pytest.raises(ValueError, match="other data"):
        kept_step(model, tmp_path / "run", bound=bound)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"random_seed": None}, "needs a seed"),
        ({"random_seed": 12}, "other random_seed"),
        ({"tune": 50}, r"other tune \(60 there, 50 here\)"),
        ({"initvals": {"beta": np.ones(3)}}, "initvals"),
    ],
)
@pytest.mark.parametrize("cores", [1, 2])
def test_another_run_is_refused_when_it_samples(begun, settings, message, cores):
    folder, model = begun
    step = kept_step(model, folder)
    with pytest.raises((ValueError, ParallelSamplingError), match=message):
        sample(model, step, cores=cores, **settings)


@pytest.mark.parametrize("left", [b"", None])
def test_chains_of_another_run_are_refused_without_its_record(begun, left, tmp_path):
    """It may be damaged, or somebody may have deleted it."""
    folder = shutil.copytree(begun[0], tmp_path / "run")
    (folder / "run").unlink() if left is None else (folder / "run").write_bytes(left)
    other = model_of(shift=1.0)
    step = kept_step(other, folder)
    with pytest.raises(ValueError, match="a run with other model, data or settings"):
        sample(other, step)


def test_set_up_is_not_made_twice(begun, monkeypatch, caplog):
    """The mode is that of before; a folder that is refused costs no search."""
    folder, model = begun
    monkeypatch.setattr(ModeFinder, "find", lambda *_: pytest.fail("a search"))
    caplog.set_level(logging.INFO, "pymc.flymc")
    kept_step(model, folder)
    assert " goes on" in caplog.text
    with pytest.raises(ValueError, match="other transitions"):
        kept_step(model, folder, transitions=7)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_folder_of_a_live_process_is_refused(tmp_path):
    """Until its end, and that of the processes that it has forked; in one process it is no lock."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()

    def other():
        hold(tmp_path)
        theirs.send(os.getpid())
        theirs.recv()

    process = fork.Process(target=other)
    process.start()
    try:
        number = ours.recv()
        model = model_of()
        with pytest.raises(ValueError, match=f"in use by process {number}"):
            kept_step(model, tmp_path)
    finally:
        process.kill()
        process.join()
    for _ in range(2):
        kept_step(model, tmp_path)


def test_folder_that_is_deleted_is_begun_again(tmp_path):
    model, folder = model_of(), tmp_path / "a" / "b"
    for prior_sd in (1.0, 2.0):
        model = model_of(prior_sd=prior_sd)
        kept_step(model, folder)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def test_place_that_is_no_folder_is_refused(tmp_path):
    model, file = model_of(), tmp_path / "file"
    file.write_text("")
    for place in (file, file / "below"):
        with pytest.raises(ValueError, match=r"cannot be used .*written to"):
            kept_step(model, place)
    with pytest.raises(ValueError, match="checkpoint must be the path of a folder, or None, not 3"):
        kept_step(model, 3)


def test_structures():
    """Equal for equal graphs, whatever their data, and different for others."""
    found = [
        structure_of([*model.basic_RVs])
        for model in (
            model_of(),
            model_of(shift=1.0),
            model_of(prior_sd=2.0),
            model_of(n=399),
        )
    ]
    assert found[0] == found[1] and len(set(found)) == 3


def test_structures_have_the_limits_of_variables():
    """They are in no graph but that of the variable on its own scale, which is its parameters'."""

    def structure(largest):
        with pm.Model() as model:
            pm.Normal("b", transform=Interval(-largest, largest))
        return Fingerprint.of(model).structure

    assert structure(1.0) == structure(1.0) != structure(3.0)


def test_settings_are_written_alike_for_equal_ones():
    a, b = (JaakkolaJordan(xi=np.arange(3.0), slack=s) for s in (0.0, 0.0))
    assert checkpoint.written({"y": [a, None, 0.5]}) == checkpoint.written({"y": [b, None, 0.5]})
    other = JaakkolaJordan(xi=np.arange(3.0) + 1e-15, slack=0.0)
    assert checkpoint.written(a) != checkpoint.written(other)
