"""Owns request traces with KV block identity: reading and writing them, generating them, describing them."""

from kvcache.trace.reader import TraceError, read_trace
from kvcache.trace.request import Request
from kvcache.trace.writer import write_trace

__all__ = ["Request", "TraceError", "read_trace", "write_trace"]
