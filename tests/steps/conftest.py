"""Steps that tests share."""

import pytest

from pymc_flymc import JaakkolaJordan
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import SCHEMES, step_of


@pytest.fixture(scope="session")
def shared():
    """A model, and one step on it for each scheme, for tests that leave the step as it was."""
    model = logistic_model(*logistic_rows(400))
    steps = {}

    def get(scheme="implicit-by-row"):
        if scheme not in steps:
            steps[scheme] = step_of(
                model, brightness=SCHEMES[scheme], bound=JaakkolaJordan(xi=1.5, slack=0.0)
            )
        return model, steps[scheme]

    return get
