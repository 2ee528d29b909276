"""Runs that go on after they were killed: what they keep in a folder, and how it comes back."""
