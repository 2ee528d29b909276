"""The experiments of Maclaurin & Adams (2014), section 4: `python -m examples.paper --help`."""
