"""What to enforce: a policy, its immutable revisions, validation, and which pool runs which policy."""
