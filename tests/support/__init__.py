"""Real servers for tests: each on its own port or socket, each ended by its fixture."""
