"""The chi distribution without `scipy.stats`."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import chi

from pymc_flymc.bounds.taylor import chi_moment, chi_quantile


@pytest.mark.parametrize("degrees", [1, 2, 7, 51, 1701])
def test_as_scipy_s(degrees):
    for order in (3, 4):
        expected = chi.expect(lambda r, k=order: r**k, args=(degrees,))
        np.testing.assert_allclose(chi_moment(order, degrees), expected, rtol=1e-7)
    for probability in (0.5, 0.99, 1 - 1e-9):
        expected = chi.ppf(probability, degrees)
        np.testing.assert_allclose(chi_quantile(probability, degrees), expected, rtol=1e-12)


def test_imports_leave_out_what_takes_longest():
    """They would double the time that `import pymc` takes."""
    code = "import sys, pymc_flymc; print({'scipy.stats', 'arviz_stats'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
