"""The replay client against real agents, and the benches on small sizes."""
