"""Which effects are multiplied by a scale, and by nothing else."""

import numpy as np
import pymc as pm
import pytensor
import pytest

from pymc_flymc.kernels.shared_scales import NON_CENTRED
from pymc_flymc.reading.flat import Layout, flatten_model
from pymc_flymc.reading.scaled_effects import find_non_centred_effects


def found_in(write):
    """Names of the scales that are found in what `write` returns, and of their effects."""
    with pm.Model() as model:
        coefficients = write()
    [of_values] = model.replace_rvs_by_values([pm.math.flatten(coefficients)])
    variables, point = model.value_vars, model.initial_point()
    layout, nothing = Layout.of(variables, point), Layout.of([], point)
    prior = model.logp()
    flat = flatten_model(prior, [of_values], [1], variables, layout, [], nothing)
    w = pytensor.function([flat.theta], flat.coefficients[0], mode="FAST_COMPILE")
    theta = layout.ravel(point) + np.random.default_rng(1).normal(size=layout.size)
    scales = find_non_centred_effects(w, theta, layout)
    assert not np.any(scales.locations.offset) and not len(scales.locations.place)
    assert set(scales.power) <= {NON_CENTRED}
    ends = zip(scales.first[:-1], scales.first[1:], strict=True)
    return {
        layout.describe(scale): [layout.describe(j) for j in scales.effects[first:last]]
        for scale, (first, last) in zip(scales.scale, ends, strict=True)
    }


def tau():
    return pm.HalfNormal("tau", 1.0)


def z(*shape, name="z"):
    return pm.Normal(name, shape=shape)


def columns(name="local", n=3):
    return pm.HalfCauchy(name, 1.0, shape=n)


Z3 = ["z[0]", "z[1]", "z[2]"]
EACH = {f"local_log__[{i}]": [f"z[{i}]"] for i in range(3)}


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda: tau() * z(3), {"tau_log__": Z3}),
        (lambda: z() * tau(), {"tau_log__": ["z"]}),
        (lambda: pm.Normal("mu") + tau() * z(3), {"tau_log__": Z3}),
        (lambda: pm.math.exp(pm.Normal("log_tau")) * z(3), {"log_tau": Z3}),
        (lambda: (np.ones((4, 3)) + np.eye(4, 3)) @ (tau() * z(3)), {"tau_log__": Z3}),
        (lambda: columns() * z(3), EACH),
        (
            lambda: pm.math.concatenate(
                [(own := columns())[0] * z(2, name="a"), (own[2] * z(name="b"))[None]]
            ),
            {"local_log__[0]": ["a[0]", "a[1]"], "local_log__[2]": ["b"]},
        ),
        (lambda: tau() * columns() * z(3), {"tau_log__": Z3} | EACH),
        (
            lambda: columns(n=2) * z(3, 2),
            {f"local_log__[{i}]": [f"z[{k}, {i}]" for k in range(3)] for i in range(2)},
        ),
        (
            lambda: columns(n=2)[:, None] * z(2, 3),
            {f"local_log__[{i}]": [f"z[{i}, {k}]" for k in range(3)] for i in range(2)},
        ),
        (
            lambda: pm.math.concatenate(
                [(t := tau()) * z(2, name="a"), t * z(2, name="b"), z(1, name="c")]
            ),
            {"tau_log__": ["a[0]", "a[1]", "b[0]", "b[1]"]},
        ),
    ],
)
def test_products_are_found(write, expected):
    assert found_in(write) == expected


@pytest.mark.parametrize(
    "write",
    [
        lambda: z(3),
        lambda: pm.Normal("b", 0.0, tau(), shape=3),  # centred
        lambda: (t := tau()) * z(3) + t,
        lambda: (t := tau()) * z(3) + t**2,
        lambda: tau() * (1.0 + z(3)),
        lambda: tau() * pm.math.exp(z(3)),
        lambda: tau() * (a := z(3)) + a,
        lambda: pm.math.sqrt(1.0 + tau() ** 2) * z(3),
        lambda: pm.Uniform("tau", 0.0, 2.0) * z(3),
        lambda: pm.math.stack([(t := tau()), t + 1.0]),
        lambda: columns() * z(3)[::-1],
    ],
)
def test_others_are_left_alone(write):
    assert found_in(write) == {}
