"""Which effects follow their scales, and by how much."""

from collections.abc import Mapping

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.anchor.expanded_density import ExpandedDensity
from pymc_flymc.anchor.funnels import PROBES, curvatures, standard_deviations
from pymc_flymc.kernels.following import NO_FOLLOWING, Following
from pymc_flymc.kernels.shared_scales import NON_CENTRED, Locations, SharedScales

#: Effects of which the scale changes less of the precision are left as they are.
LEAST_SHARE = 0.1
#: Change of scales' logarithms for which precisions are compared.
CHANGE = 0.5


def find_following(density: ExpandedDensity, anchor: Anchor, scales: SharedScales) -> Following:
    """Return the effects whose room depends on scales, as at the anchor.

    A wrong guess here costs speed, not correctness: moves are exact in any coordinates.
    """
    own = _scales_of(scales)
    if not own:
        return NO_FOLLOWING
    theta, effects = anchor.theta, np.array(list(own))
    changes = np.zeros(len(theta))
    for place, power in {pair for pairs in own.values() for pair in pairs}:
        changes[place] = CHANGE * np.sign(power)
    change = np.array([sum(changes[place] * power for place, power in own[j]) for j in effects])
    statistics = anchor.expansion.concave().pack()
    rng = np.random.default_rng(20141104)
    probes = np.zeros((PROBES, len(theta)))
    sds = standard_deviations(anchor.geometry, rng)[effects]
    probes[:, effects] = sds * rng.choice([-1.0, 1.0], (PROBES, len(effects)))
    before, after = (
        curvatures(density, statistics, at, probes, step=1.0).mean(axis=0)[effects]
        for at in (theta, theta + changes)
    )
    with np.errstate(all="ignore"):
        share = (1.0 - after / before) / -np.expm1(-2.0 * change)
    share = np.where((before > 0.0) & np.isfinite(share), np.clip(share, 0.0, 1.0), 0.0)
    kept = share > LEAST_SHARE
    return _following(scales, theta, dict(zip(effects[kept], share[kept], strict=True)), own)


def _scales_of(scales: SharedScales) -> dict[int, list[tuple[int, float]]]:
    """Return the scales of each effect, with its powers, if it can follow them."""
    own: dict[int, list[tuple[int, float]]] = {}
    for k, place in enumerate(scales.scale):
        for i in range(scales.first[k], scales.first[k + 1]):
            own.setdefault(int(scales.effects[i]), []).append((int(place), float(scales.power[i])))
    for fixed in (*scales.scale, *scales.locations.place):
        own.pop(int(fixed), None)
    return own


def _following(
    scales: SharedScales,
    theta: np.ndarray,
    share: Mapping[int, float],
    own: Mapping[int, list[tuple[int, float]]],
) -> Following:
    """Return the sets of effects that have the same scales."""
    sets: dict[tuple[tuple[int, float], ...], list[int]] = {}
    for j in share:
        sets.setdefault(tuple(own[j]), []).append(j)
    if not sets:
        return NO_FOLLOWING
    effects = np.concatenate([np.array(each, np.int64) for each in sets.values()])
    terms = [pair for pairs in sets for pair in pairs]
    scale = np.array([place for place, _ in terms], np.int64)
    locations = _locations_of(scales, effects)
    return Following(
        first=np.cumsum([0, *map(len, sets.values())]),
        effects=effects,
        share=np.array([share[j] for j in effects]),
        distance=theta[effects] - locations.at(theta),
        locations=locations,
        first_scale=np.cumsum([0, *map(len, sets)]),
        scale=scale,
        power=np.array([power for _, power in terms]),
        origin=theta[scale],
        multiplied=np.array([float(pairs[0][1] == NON_CENTRED) for pairs in sets]),
    )


def _locations_of(scales: SharedScales, effects: np.ndarray) -> Locations:
    """Return the locations of some effects."""
    locations = scales.locations
    at = {int(j): i for i, j in enumerate(scales.effects)}
    rows = np.array([at[int(j)] for j in effects])
    spans = [np.arange(locations.first[i], locations.first[i + 1]) for i in rows]
    terms = np.concatenate(spans).astype(np.int64)
    return Locations(
        offset=locations.offset[rows],
        first=np.cumsum([0, *map(len, spans)]),
        place=locations.place[terms],
        weight=locations.weight[terms],
    )
