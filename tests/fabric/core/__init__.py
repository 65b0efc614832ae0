"""Tests of what all apps share."""
