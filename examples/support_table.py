"""The README's table of what is supported, asked of the package itself.

`python -m examples.support_table` writes it into README.md, between two comments. Every family that
is registered is put into small models, as its `usage` says, and the models are read as steps do.
"""

from __future__ import annotations

import functools
import logging
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

from pymc_flymc import UnsupportedModelError, weighted
from pymc_flymc.bounds import BOUNDS, is_for_joint_moves
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.out_of_core.data_setting import source_of
from pymc_flymc.out_of_core.stored_model import read_stored
from pymc_flymc.reading.model import read_model
from pymc_flymc.regression.matrices import LARGEST_DENSE
from pymc_flymc.regression.regression import Regression
from pymc_flymc.sampling.bound_choice import forms

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- support table: python -m examples.support_table -->\n", "<!-- end -->"
HEADER = (
    f"| `pm.` | joint moves | more than {LARGEST_DENSE} effects of groups | weights "
    "| out of core |\n|---|---|---|---|---|\n"
)

#: So many rows that each is a group of its own where there are many groups.
N, N_CLASSES = LARGEST_DENSE + 10, 3
#: Parameters beside eta, by the names that usages give them.
PARAMETERS = ("alpha", "nu", "sigma", "b", "s", "beta", "psi", "kappa")


class Kind(NamedTuple):
    """What a model has beside its family.

    Parameters are variables of the model, or numbers.
    """

    free: bool = True
    weights: bool = False
    groups: bool = False
    stored: bool = False


def usages() -> list[str]:
    """Return how models write each registered family, once, in their order."""
    texts = ", ".join(getattr(family, "usage", "") for family in LIKELIHOODS)
    return list(dict.fromkeys(re.findall(r"pm\.[A-Z].*?\)(?=, pm\.[A-Z]|$)", texts)))


def name_of(usage: str) -> str:
    """Return the name of a distribution."""
    return usage.split("(")[0].removeprefix("pm.")


def shown(usage: str) -> str:
    """Return the name of a distribution, with that of the one in it, or what its scale is."""
    inner = re.search(r"pm\.(\w+)\.dist|(sigma=)pm\.math\.(\w+)", usage)
    inside = f"({''.join(filter(None, inner.groups()))})" if inner else ""
    return f"`{name_of(usage)}{inside}`"


def data_of(usage: str) -> dict[str, np.ndarray]:
    """Return a predictor and outcomes that the family can have."""
    y = np.full(N, 0.5 if name_of(usage) == "Beta" else 1.0)
    if name_of(usage) == "Multinomial":
        y = np.tile([1, 1, 0], (N, 1))
    if re.search("Bernoulli|Binomial|Poisson|Categorical|Ordered", usage):
        y = np.arange(N) % 2
    return {"x": np.linspace(-1.0, 1.0, N), "y": y}


def model_of(usage: str, kind: Kind) -> pm.Model:
    """Return a small model of a family."""
    arguments = usage.split("(", 1)[1].removesuffix(")")
    shape = (N_CLASSES,) * (name_of(usage) in ("Categorical", "Multinomial"))
    with pm.Model() as model:
        data = data_of(usage).items()
        x, y = (pm.Data(name, values) if kind.stored else values for name, values in data)
        eta = (x[:, None] if shape else x) * pm.Normal("slope", 0, 1, shape=shape)
        if kind.groups:
            eta += pm.Normal("effects", 0, 1, shape=(N, *shape))[np.arange(N)]
        names: dict[str, Any] = {"pm": pm, "eta": eta, "y": y, "n": 2, "q": 0.5, "exposure": 1.0}
        names |= {"cutpoints": np.array([-1.0, 1.0]), "lower": 0.5, "upper": 1.0, "tau": eta}
        for each in PARAMETERS:
            used = re.search(rf"(?<![\w.]){each}(?!\w|=)", arguments)
            prior = pm.Beta if each == "psi" else pm.Gamma
            names[each] = prior(f"free {each}", 2, 2) if kind.free and used else 0.5
        if kind.weights:
            distribution = eval(f"pm.{name_of(usage)}.dist({arguments})", names)
            weighted("outcome", distribution, np.linspace(0.5, 1.5, N), observed=y)
        else:
            eval(f"pm.{name_of(usage)}('outcome', {arguments}, observed=y)", names)
    return model


@functools.cache
def read(usage: str, kind: Kind) -> Sequence[Regression]:
    """Return the regressions as which a model is read, none if it is refused."""
    with warnings.catch_warnings(action="ignore"):
        model = model_of(usage, kind)
        try:
            if not kind.stored:
                return read_model(model).regressions
            return read_stored(model, None, source_of(data_of(usage))).regressions
        except UnsupportedModelError:
            return ()


def bounded(usage: str, kind: Kind, joint: bool = False) -> bool:
    """Whether each likelihood has a bound; joint moves are for one likelihood."""
    regressions = read(usage, kind)
    bounds = [bound for bound in BOUNDS if is_for_joint_moves(bound) or not joint]
    return len(regressions) in ((1,) if joint else (1, 2)) and all(
        any(bound.supports(each.likelihood) and forms(bound, each) for bound in bounds)
        for each in regressions
    )


def cells(usage: str) -> str:
    """Return what a line of the table says of a family."""

    def cell(supported: Callable[[bool], bool]) -> str:
        return "yes" if supported(True) else "shapes given" if supported(False) else "no"

    return " | ".join(
        (
            cell(lambda free: bounded(usage, Kind(free), joint=True)),
            cell(lambda free: bounded(usage, Kind(free, groups=True))),
            cell(lambda free: bounded(usage, Kind(free, weights=True))),
            cell(lambda free: bool(read(usage, Kind(free, stored=True)))),
        )
    )


def table() -> str:
    """Return the table as Markdown: distributions with the same cells have one line."""
    alike: dict[str, list[str]] = {}
    for usage in usages():
        alike.setdefault(cells(usage), []).append(shown(usage))
    lines = [f"| {', '.join(dict.fromkeys(names))} | {of} |\n" for of, names in alike.items()]
    return HEADER + "".join(lines)


def with_table(page: str) -> str:
    """Return a page with the table of now."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END, 1)[1]}"


if __name__ == "__main__":
    logging.getLogger("pymc").setLevel(logging.ERROR)
    README.write_text(with_table(README.read_text()))
