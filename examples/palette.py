"""One colour and one marker for each method, the same in all figures.

The colours are those of Okabe and Ito (2008), with a few of Tol's (2021), all of which the
colour-blind can tell apart; markers tell the methods apart in grey, too. Methods that a figure does
not single out are grey.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OTHER", "Look", "look"]


@dataclass(frozen=True)
class Look:
    """How a method is drawn.

    Attributes
    ----------
    colour : of its curves, as Matplotlib knows it.
    marker : of its points.
    """

    colour: str
    marker: str


#: By the beginning of a label.
LOOKS = {
    "FireflyMH": Look("#D55E00", "o"),
    "FireflyHMC": Look("#E69F00", "s"),
    "FireflyMALA": Look("#882255", "<"),
    "FireflySlice, random": Look("#117733", "d"),
    "FireflySlice": Look("#44AA99", "v"),
    "NUTS": Look("#0072B2", "^"),
    "independence MH": Look("#000000", "D"),
    "HMCECS": Look("#CC79A7", "v"),
    "SGLD, control variates": Look("#56B4E9", "P"),
    "FlyMC as in the paper": Look("#009E73", "X"),
    "MAP-tuned FlyMC": Look("#009E73", "X"),
    "Untuned FlyMC": Look("#AA4499", "p"),
    "Regular MCMC": Look("0.35", "*"),
    "Taylor": Look("#D55E00", "o"),
    "NumPyro, GPU": Look("#DDCC77", "P"),
    "NumPyro": Look("#332288", ">"),
    "Pólya-Gamma Gibbs": Look("#999933", "h"),
    "Jebara-Choromanska": Look("#009E73", "s"),
    "Böhning": Look("#0072B2", "^"),
}
OTHER = Look("0.6", "")


def look(label: str) -> Look:
    """Return the look of the method with this label, that of the others if it has none."""
    return next((found for name, found in LOOKS.items() if label.startswith(name)), OTHER)
