"""Owns what holds the blocks: memory of the DRAM tier (`dram`), threads for devices (`io_pool`), the flash engine."""
