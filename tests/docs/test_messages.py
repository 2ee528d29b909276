"""Each message of PyMC that the questions and answers explain is what PyMC says, word for word."""

import re
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import sparse

from pymc_flymc import FireflyMH

PAGE = Path(__file__).parents[2] / "docs" / "faq.md"
FRAME = pd.DataFrame({"age": [1.0, 2.0, 3.0], "school": ["a", "b", "a"], "bought": ["1", "0", "1"]})
DRAWS = {"posterior": {"b": np.zeros((2, 10))}, "sample_stats": {"distance": np.zeros((2, 10))}}
#: What leads to each, given a variable of three elements; "…" stands for what differs.
CAUSES = {
    "Cannot convert … sparse matrix … to a tensor variable": lambda b: (
        sparse.csr_matrix(np.eye(3)) @ b
    ),
    "Unsupported dtype for TensorType: object": lambda b: FRAME.to_numpy() @ b,
    "tuple index out of range": lambda b: FRAME[["age"]] @ b,
    "setting an array element with a sequence": lambda b: FRAME["age"] * b,
    "maximum recursion depth exceeded": lambda b: b[FRAME["school"]],
    "index must be integers or a boolean mask": lambda b: b[np.array([0.0, 1.0])],
    "ufunc 'isnan' not supported for the input types": lambda b: pm.Bernoulli(
        "y", logit_p=b, observed=FRAME["bought"]
    ),
    "Masked arrays or arrays with nan entries are not supported": lambda b: pm.Data(
        "x", np.array([1.0, np.nan])
    ),
    "Variables that depend on other nodes cannot be used for observed data": lambda b: pm.Normal(
        "y", b[0], observed=pm.Minibatch(np.zeros((10, 2)), batch_size=2)[:, 0]
    ),
    "Step should be a Step or a sequence of Steps": lambda b: pm.sample(step=FireflyMH),
    "Invalid key found in step_kwargs: {'nuts'}": lambda b: pm.sample(
        step=pm.Metropolis(), target_accept=0.9
    ),
    "'DataTree' object has no attribute 'energy'": lambda b: az.plot_energy(az.from_dict(DRAWS)),
}


@pytest.mark.filterwarnings("ignore:Operation with TensorVariable is deprecated")
@pytest.mark.filterwarnings("ignore:total_size not provided")
@pytest.mark.parametrize("message", CAUSES)
def test_this_is_what_pymc_says(message):
    says = ".*".join(re.escape(part.strip()) for part in message.split("…"))
    with pm.Model(), pytest.raises(Exception) as caught:
        CAUSES[message](pm.Normal("b", shape=3))
    assert re.search(says, str(caught.value).replace("`", "").replace("\n", " "))


def test_all_that_the_page_explains_are_raised_here():
    section = PAGE.read_text().split("## Messages of PyMC")[1].split("\n## ")[0]
    headings = re.findall(r"^### (.*)$", section, re.M)
    messages = [part for heading in headings for part in heading.split("; ")]
    assert [m for m in messages if not m.startswith("`pm.sample` does not return")] == list(CAUSES)
