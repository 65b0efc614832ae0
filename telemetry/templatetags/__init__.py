"""Template tags that pages of the control plane use without importing telemetry."""
