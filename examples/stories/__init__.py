"""Short scripts from raw data to a decision, as a reader of the documentation would write them."""
