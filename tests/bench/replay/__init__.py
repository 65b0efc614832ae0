"""The replay client: payloads, sources, player, pacing, and the whole program."""
