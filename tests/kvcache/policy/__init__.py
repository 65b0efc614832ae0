"""Tests of the policy document."""
