"""Tests of traces: reading, writing, generating, describing."""
