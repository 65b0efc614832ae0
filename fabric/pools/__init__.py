"""Capacity that is managed as one: a pool and its members. What it keeps is decided in `fabric.policies`."""
