"""Reading of a ``pm.Model``: its regressions, and the rest of the model without them."""
