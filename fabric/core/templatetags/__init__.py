"""The tags that templates of every app use."""
