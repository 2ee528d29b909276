"""What sweeps have shown so far: a line for each combination, with the commit that it was seen at.

A whole sweep takes hours. A ledger lets it be done in parts, on days and machines of their own:
combinations that are in it are not run again.
"""

import csv
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["add_to_ledger", "read_ledger"]

#: What lines say of runs: too few crossings into tails, and heavy tails that the step warned of.
FEW, WARNED = "few crossings", "warned"
COLUMNS = ["combination", "commit", "draws", "worth", "scores", "largest", "of", "says"]


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a ledger as results with one score, the largest of ``n_scores``."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [_result(line) for line in csv.DictReader(file)]


def add_to_ledger(path: Path, results: Sequence[dict[str, Any]]) -> None:
    """Add results to a ledger, or put them in the place of those of an earlier commit."""
    lines = {each["combination"]: _line(each, each["commit"]) for each in read_ledger(path)}
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    lines |= {each["combination"]: _line(each, commit) for each in results}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines[name] for name in sorted(lines))


def _line(result: dict[str, Any], commit: str) -> dict[str, Any]:
    line = {"combination": result["combination"], "commit": commit}
    for word in ("refused", "error"):
        if word in result:
            return line | {"says": f"{word}: {result[word]}"}
    of, largest = max(result["z"].items(), key=lambda each: np.nan_to_num(abs(each[1]), nan=np.inf))
    return line | {
        "draws": result["draws"],
        "worth": round(result["n_effective"]),
        "scores": result.get("n_scores", len(result["z"])),
        "largest": f"{largest:.2f}",
        "of": of,
        "says": _said(result),
    }


def _result(line: dict[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = {key: line[key] for key in ("combination", "commit")}
    word, _, text = line["says"].partition(": ")
    if word in ("refused", "error"):
        return result | {word: text}
    return result | {
        "draws": int(line["draws"]),
        "n_effective": float(line["worth"]),
        "n_scores": int(line["scores"]),
        "z": {line["of"]: float(line["largest"])},
        "telling": not line["says"].startswith(FEW),
        "warns": line["says"].endswith(WARNED),
    }


def _said(result: dict[str, Any]) -> str:
    few = [] if result["telling"] else [FEW]
    return ", ".join(few + [WARNED] * bool(result.get("warns")))
