"""Samples over time: identity of a series, counter resets, the SQL store with its roll-ups, and how it is read back."""
