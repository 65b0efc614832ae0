"""Owns the replay client: plays a request trace against agents through a Redis client and shows vLLM's metric names."""
