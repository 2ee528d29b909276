"""Data, models, steps and comparisons that tests of all layers share."""
