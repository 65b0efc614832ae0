"""Tests of kvcache."""
