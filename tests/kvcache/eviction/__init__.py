"""Tests of the eviction orders."""
