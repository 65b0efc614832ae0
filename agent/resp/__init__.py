"""Owns the RESP2/RESP3 door: parser, replies, connections, the loop that serves them, and the commands."""
