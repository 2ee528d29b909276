"""Tiny models of each family in each form: two or three parameters, a dozen rows."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm

from pymc_flymc import weighted
from pymc_flymc.extending import register_likelihood
from pymc_flymc.likelihoods import LIKELIHOODS
from tests.support.patches import any_size, in_partitions, structured
from tests.sweep.families import FAMILIES, LONGEST, PROBABILITIES, RATES, Written, positive

__all__ = ["FORMS", "MODELS", "Form", "TinyModel"]

#: Rows of a model, and how many of those that lie elsewhere are in its containers; more rows.
N_ROWS, HEAD, SOME, MANY = 12, 10, 60, 240
#: Outcomes far from zero, such as dates in days, and their unit there: coefficients are known to a
#: few millionths of a millionth.
DAY, UNIT = 2_459_000.0, 1e-5
#: Spread of the logarithm of a second parameter that the data hardly limit.
WIDE = 1.5
_rng = np.random.default_rng(1)
_x = np.round(_rng.normal(size=LONGEST), 2)
_weights = np.round(_rng.exponential(size=LONGEST), 1)
_weights[[2, 5]] = 0.0, 2.0
#: What rows have beside what their family needs.
COLUMNS = {
    "X": np.column_stack([np.ones(LONGEST), _x]),
    "x": _x,
    "z": 0.6 + 0.5 * _x,
    "group": np.arange(LONGEST) % 2,
    "weights": _weights,
}
#: Coefficients of X by which outcomes are simulated, and the second parameter where it is free.
TRUTH, SECOND = (0.2, 0.7), 1.2

Rows = Mapping[str, Any]
#: From an entry and columns by name to the predictor and the second parameter.
Predictors = Callable[[Written, Rows], tuple[Any, Any]]


def _plain(entry: Written, rows: Rows) -> tuple[Any, Any]:
    """Two coefficients, or one and the second parameter where no model knows that."""
    if entry.second is None:
        return _nuisance(entry, rows)
    return rows["X"] @ pm.Normal("b", 0.0, 1.0, shape=2), entry.second


def _nuisance(entry: Written, rows: Rows) -> tuple[Any, Any]:
    return 0.2 + rows["z"] * pm.Normal("b", 0.0, 1.0), entry.free("s")


def _at_an_end(entry: Written, rows: Rows) -> tuple[Any, Any]:
    """As `_nuisance`, with a prior that lets the second parameter go as far as the data do."""
    assert entry.free is not None
    second = positive("s", WIDE) if entry.free is positive else entry.free("s")
    return 0.2 + rows["z"] * pm.Normal("b", 0.0, 1.0), second


def _two_predictors(entry: Written, rows: Rows) -> tuple[Any, Any]:
    second = entry.link(0.3 + rows["x"] * pm.Normal("c", 0.0, 0.7))
    return 0.2 + rows["z"] * pm.Normal("b", 0.0, 1.0), second


def _groups(entry: Written, rows: Rows) -> tuple[Any, Any]:
    """Effects of a scale that is sampled, or given where the second parameter is sampled."""
    known = entry.second is not None
    # Else effects of angles have another mode a turn away, which chains of no kind find.
    middle = -1.0 if entry.is_circular else -0.3
    scale = pm.LogNormal("t", middle, 0.4) if known else 1.0
    effects = pm.Normal("a", 0.0, scale, shape=2)
    return effects[rows["group"]], entry.second if known else entry.free("s")


def _product(entry: Written, rows: Rows) -> tuple[Any, Any]:
    """A coefficient that is a scale times an effect, which the data know well: a ridge."""
    slope = pm.LogNormal("t", 0.0, 0.7) * pm.Normal("z", 0.0, 1.0)
    return 0.2 + rows["x"] * slope, entry.second


def _far(entry: Written, rows: Rows) -> tuple[Any, Any]:
    """As `_plain`, of outcomes far from zero."""
    b = pm.Normal("b", 0.0, 1.0, shape=2)
    return rows["X"] @ (pm.math.stack([DAY, 0.0]) + UNIT * b), UNIT * entry.second


def _looked_up_with_companion(entry: Written, rows: Rows) -> tuple[Any, Any]:
    """As `_looked_up`, with counts whose rate is that of the first group."""
    value, second = _looked_up(entry, rows)
    pm.Poisson("bought", mu=pm.modelcontext(None)["r"][0], observed=np.arange(len(rows["x"])) % 3)
    return value, second


def _with_companion(entry: Written, rows: Rows) -> tuple[Any, Any]:
    """As `_plain`, with a logistic regression that has the last coefficient, too."""
    eta, second = _plain(entry, rows)
    outcomes = (np.arange(len(rows["x"])) % 3 == 0).astype(int)
    slope = pm.modelcontext(None)["b"].flatten()[-1]
    pm.Bernoulli("bought", logit_p=0.5 - slope * rows["x"][::-1], observed=outcomes)
    return eta, second


def _looked_up(entry: Written, rows: Rows, at_ends: bool = False) -> tuple[Any, Any]:
    """What two groups have, with a second parameter that is sampled where no model knows it."""
    assert entry.looked_up is not None
    value = entry.looked_up.prior("r", 2, at_ends)[rows["group"]]
    return value, entry.free("s") if entry.second is None else entry.second


def _looked_up_at_ends(entry: Written, rows: Rows) -> tuple[Any, Any]:
    return _looked_up(entry, rows, at_ends=True)


def _looked_up_nuisance(entry: Written, rows: Rows) -> tuple[Any, Any]:
    value, _ = _looked_up(entry, rows)
    return value, entry.free("s")


def _function(entry: Written, rows: Rows) -> tuple[Any, Any]:
    """Of what rows look up: within its range, too."""
    value, second = _looked_up(entry, rows)
    return 0.1 + 0.8 * value, second


def _ratio(entry: Written, rows: Rows) -> tuple[Any, Any]:
    """Of two strengths, which the data know by their ratio alone."""
    s, group = pm.Gamma("r", 2.0, 1.5, shape=2), rows["group"]
    return s[group] / (s[group] + s[1 - group]), entry.second


def _times_exponential(entry: Written, rows: Rows) -> tuple[Any, Any]:
    value, second = _looked_up(entry, rows)
    return value * pm.math.exp(rows["x"] * pm.Normal("b", 0.0, 1.0)), second


@dataclass(frozen=True)
class Form:
    """A form of model.

    Attributes
    ----------
    predictors : callable
    allows : callable
        Whether an entry can be written so.
    weights, groups, elsewhere, at_end, far, looked_up : bool
        Whether rows have weights, whether they have effects of groups, whether they lie outside the
        model, whether the second parameter of their outcomes is at an end of its range, whether
        outcomes are far from zero, and whether rows look up parameters as they are.
    n_rows : int
    patches : callable
        Context in which steps are built and run.
    """

    predictors: Predictors
    allows: Callable[[Written], bool] = lambda entry: True
    weights: bool = False
    groups: bool = False
    elsewhere: bool = False
    at_end: bool = False
    far: bool = False
    looked_up: bool = False
    n_rows: int = N_ROWS
    patches: Callable[[], AbstractContextManager[None]] = nullcontext


def _both(entry: Written) -> bool:
    """Whether the second parameter may be given or not: else the plain form has it free."""
    return entry.second is not None and entry.free is not None


def _is_probability(entry: Written) -> bool:
    return entry.looked_up is PROBABILITIES


def _is_no_mean_of_shapes(entry: Written) -> bool:
    """Whether no shapes are made of what is looked up: those of a function of it are not read."""
    return not (_is_probability(entry) and entry.free is not None)


FORMS = {
    "plain": Form(_plain),
    "nuisance": Form(_nuisance, _both),
    "end": Form(_at_an_end, lambda entry: entry.end is not None, at_end=True, n_rows=MANY),
    "predictors": Form(_two_predictors, lambda entry: entry.link is not None),
    "far": Form(_far, lambda entry: entry.is_location_scale, far=True),
    "weights": Form(_plain, weights=True),
    "groups": Form(_groups, groups=True),
    "ridge": Form(_product, lambda entry: entry.second is not None, n_rows=SOME),
    "many-groups": Form(_groups, groups=True, patches=structured),
    "several": Form(_with_companion, patches=any_size),
    "elsewhere": Form(_plain, elsewhere=True, n_rows=LONGEST, patches=in_partitions),
    "elsewhere-nuisance": Form(
        _nuisance, _both, elsewhere=True, n_rows=LONGEST, patches=in_partitions
    ),
    "looked-up": Form(_looked_up, looked_up=True),
    "looked-up-nuisance": Form(_looked_up_nuisance, _both, looked_up=True),
    "looked-up-ends": Form(
        _looked_up_at_ends,
        lambda entry: not entry.is_cut,
        looked_up=True,
        at_end=True,
        n_rows=SOME,
    ),
    "looked-up-weights": Form(_looked_up, looked_up=True, weights=True),
    "looked-up-product": Form(
        _times_exponential,
        lambda entry: entry.looked_up is RATES and entry.second is not None,
        looked_up=True,
    ),
    "looked-up-function": Form(_function, _is_no_mean_of_shapes, looked_up=True),
    "looked-up-ratio": Form(_ratio, _is_probability, looked_up=True),
    "looked-up-many": Form(_looked_up, looked_up=True, groups=True, patches=structured),
    "looked-up-several": Form(_looked_up_with_companion, looked_up=True, patches=any_size),
    "looked-up-elsewhere": Form(
        _looked_up, looked_up=True, elsewhere=True, n_rows=LONGEST, patches=in_partitions
    ),
}


@dataclass(frozen=True)
class TinyModel:
    """A family, an entry of it, and a form.

    Attributes
    ----------
    name : str
    family : type
    entry : Written
    form : Form
    """

    name: str
    family: type
    entry: Written
    form: Form

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """All that rows have, by name; what is observed is simulated, but for outlying rows."""
        n = self.form.n_rows
        known = {**COLUMNS, **self.entry.rows}
        columns = {key: np.resize(value, (n, *value.shape[1:])) for key, value in known.items()}
        if self.form.looked_up:
            return columns | {"observed": self._looked_up_outcomes(columns)}
        if self.form.at_end:  # as the model says: all else would pull the parameter from there
            dist = self.entry.dist(0.2 + 0.5 * columns["z"], self.entry.end, columns)
            return columns | {"observed": pm.draw(dist, random_seed=3)}
        second = SECOND if self.entry.second is None else self.entry.second
        eta = columns["X"] @ np.array(TRUTH)
        if self.form.far:
            eta, second = DAY + UNIT * eta, UNIT * second
        dist = self.entry.dist(eta, second, columns)
        observed = pm.draw(dist, random_seed=3)
        ends = np.array([columns["x"].argmin(), columns["x"].argmax()])
        if "n" not in columns:  # there may be more successes than the other row has trials
            observed[ends] = observed[ends[::-1]]
        columns["observed"] = observed
        return columns

    def _looked_up_outcomes(self, columns: Rows) -> np.ndarray:
        """Of two groups, the second of which has a value near the end of its range, if `at_end`."""
        assert self.entry.looked_up is not None
        eta = np.where(columns["group"] == 1, -5.0 if self.form.at_end else -0.5, 0.6)
        second = SECOND if self.entry.second is None else self.entry.second
        dist = self.entry.dist(self.entry.looked_up.inverse(eta), second, columns)
        return np.asarray(pm.draw(dist, random_seed=3))

    def write(self, columns: Rows) -> pm.Model:
        """Return the model of some columns, arrays or containers of data."""
        with pm.Model() as model:
            if self.form.elsewhere:
                columns = {name: pm.Data(name, values) for name, values in columns.items()}
            eta, second = self.form.predictors(self.entry, columns)
            dist = self.entry.dist(eta, second, columns)
            if self.form.weights:
                weighted("y", dist, columns["weights"], observed=columns["observed"])
            else:
                model.register_rv(dist, "y", observed=columns["observed"])
        return model

    @cached_property
    def whole(self) -> pm.Model:
        """The model of all rows."""
        return self.write(self.columns)

    @cached_property
    def sampled(self) -> pm.Model:
        """The model that steps are built for."""
        if not self.form.elsewhere:
            return self.whole
        return self.write({name: values[:HEAD] for name, values in self.columns.items()})

    @contextmanager
    def patches(self) -> Iterator[None]:
        """Context in which the model is read and sampled."""
        before = list(LIKELIHOODS)
        if self.family not in map(type, before):
            register_likelihood(self.family())
        try:
            with self.form.patches():
                yield
        finally:
            LIKELIHOODS[:] = before

    @property
    def data(self) -> dict[str, Any]:
        """What a step is told beside its settings: the rows that lie elsewhere."""
        return {"data": self.columns} if self.form.elsewhere else {}


MODELS = {
    f"{written}/{form}": TinyModel(f"{written}/{form}", family, entry, FORMS[form])
    for family, ways in FAMILIES.items()
    for written, entry in ways.items()
    for form in FORMS
    if FORMS[form].looked_up == (entry.looked_up is not None) and FORMS[form].allows(entry)
}
