"""Settings that all steps have, checked before any work is done."""

import os
from collections.abc import Collection, Mapping

from pytensor.graph.basic import Variable

from pymc_flymc.bounds.setting import check_bound_setting
from pymc_flymc.settings import check, check_object, is_positive_integer
from pymc_flymc.target.resampling import Resampling


def check_common(
    vars: object,
    bound: object,
    brightness: object,
    transitions: object,
    anchor: object,
    initial_point: object,
    checkpoint: object,
) -> None:
    """Refuse settings of the wrong kind; None stands for the default of each."""
    if vars is not None and not isinstance(vars, str | Variable):
        expected = "variables or their names (all other settings are named: bound=Taylor())"
        for each in vars if isinstance(vars, Collection) else [vars]:
            check(isinstance(each, str | Variable), "vars", expected, each)
    check_bound_setting(bound)
    if brightness is not None:
        expected = "ImplicitResampling(), ExplicitResampling() or None"
        check_object("brightness", brightness, lambda k: issubclass(k, Resampling), expected)
    good = transitions is None or is_positive_integer(transitions)
    check(good, "transitions", "a positive integer or None", transitions)
    good = anchor is None or isinstance(anchor, Mapping)
    check(good, "anchor", "a dict of values by names of free variables, or None", anchor)
    good = initial_point is None or isinstance(initial_point, Mapping)
    check(good, "initial_point", "a dict like model.initial_point(), or None", initial_point)
    good = checkpoint is None or isinstance(checkpoint, str | os.PathLike)
    check(good, "checkpoint", "the path of a folder, or None", checkpoint)
