"""Whole fabrics, killed in turn."""
