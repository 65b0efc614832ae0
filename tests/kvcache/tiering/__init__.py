"""The tiering decisions, tried through the calls that the agent and the simulator make."""
