"""What a sweep found, as a table, with the false-alarm rate of the whole."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

__all__ = ["FALSE_ALARMS", "failures", "limit_of", "overview", "summary", "table"]

#: Chance that a sweep of exact samplers has any combination that fails.
FALSE_ALARMS = 0.01
#: What is compared, in the order of the columns.
KINDS = ("mean", "variance", "low", "high", "contour", "whole")


def scores_of(results: Sequence[dict[str, Any]]) -> np.ndarray:
    """Return all scores of all combinations."""
    return np.array([z for each in results for z in each.get("z", {}).values()])


def n_scores(results: Sequence[dict[str, Any]]) -> int:
    """Return the number of scores of all combinations, those of which a ledger has the largest."""
    return sum(each.get("n_scores", len(each.get("z", {}))) for each in results)


def limit_of(results: Sequence[dict[str, Any]]) -> float:
    """Return the score beyond which a combination fails: Bonferroni's, of all scores."""
    return float(stats.norm.isf(0.5 * FALSE_ALARMS / max(1, n_scores(results))))


def verdict(result: dict[str, Any], limit: float) -> str:
    """Return "exact", "FAILS", or why a combination says little or nothing."""
    if "refused" in result:
        return "refused"
    if "error" in result:
        return "CRASHED"
    if not np.max(np.abs(list(result["z"].values()))) <= limit:  # so are those that are NaN
        return "as warned" if result.get("warns") and not result["telling"] else "FAILS"
    return "exact" if result["telling"] else "few crossings"


def failures(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of combinations that fail, or that died."""
    limit = limit_of(results)
    return [each for each in results if verdict(each, limit) in ("FAILS", "CRASHED")]


def summary(results: Sequence[dict[str, Any]]) -> str:
    """Say how many combinations there were, and what became of them."""
    limit = limit_of(results)
    verdicts = [verdict(each, limit) for each in results]
    counts = {each: verdicts.count(each) for each in dict.fromkeys(verdicts)}
    said = (
        f"{len(results)} combinations: "
        + ", ".join(f"{n} {each}" for each, n in counts.items())
        + f". {n_scores(results)} scores, of which one beyond {limit:.2f} is a failure: "
        f"{FALSE_ALARMS:.0%} is the chance that a sweep of exact samplers has any."
    )
    if any("n_scores" in each for each in results):  # of a ledger, which has the largest alone
        return said
    z, good = scores_of(results), [each for each in results if verdict(each, limit) == "exact"]
    beyond, expected = int(np.sum(np.abs(z) > 3.0)), 2.0 * stats.norm.sf(3.0) * len(z)
    mean_square = float(np.mean(scores_of(good) ** 2)) if good else np.nan
    return (
        f"{said} Beyond 3.00 are {beyond}, where {expected:.1f} are expected of exact samplers. "
        f"Mean square of the scores of those called exact: {mean_square:.2f}."
    )


def overview(results: Sequence[dict[str, Any]]) -> str:
    """Return a table of entries by steps, in Markdown: combinations, and the largest score.

    Numbers that fail, or with which processes died, are in bold.
    """
    limit, cells = limit_of(results), defaultdict(list)
    for each in results:
        if "refused" not in each:
            entry, *_, moves = each["combination"].split("/")
            cells[entry, moves.split("-")[0]].append(each)
    columns = sorted({moves for _, moves in cells})
    lines = [["family", *columns], ["---"] * (1 + len(columns))]
    for entry in sorted({entry for entry, _ in cells}):
        lines.append([entry, *(_cell(cells[entry, moves], limit) for moves in columns)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(results: Sequence[dict[str, Any]], limit: float) -> str:
    """Say how many combinations there are, how many of them fail, and the largest score."""
    if not results:
        return ""
    failed = sum(verdict(each, limit) in ("FAILS", "CRASHED") for each in results)
    largest = np.max(np.abs(scores_of(results))) if any("z" in each for each in results) else np.nan
    said = f"{len(results)}:\N{NO-BREAK SPACE}{largest:.1f}"
    return f"**{said}, {failed} wrong**" if failed else said


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return the table, in Markdown: of each kind of score that which is farthest off."""
    limit = limit_of(results)
    head = ["combination", "draws", "worth", *KINDS, "verdict"]
    lines = [head, ["---"] * len(head)]
    for each in sorted(results, key=lambda each: each["combination"]):
        said = verdict(each, limit)
        if "z" not in each:
            lines.append([each["combination"], *[""] * (2 + len(KINDS)), said])
            continue
        worst = [
            max((z for what, z in each["z"].items() if what.startswith(kind)), key=abs)
            for kind in KINDS
        ]
        numbers = [f"{each['draws']:,}", f"{each['n_effective']:,.0f}"]
        lines.append([each["combination"], *numbers, *(f"{z:.1f}" for z in worst), said])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
