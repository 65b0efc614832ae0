"""People and API tokens: who they are and what their role lets them do. Agents are not people: see `fabric.agents`."""
