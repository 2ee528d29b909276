"""From a ``pm.Model`` to regressions, and to what is left of the model without them."""
