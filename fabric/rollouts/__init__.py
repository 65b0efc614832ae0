"""How a revision gets to the agents: work rows, claims with lease and epoch, sweeper, verbs, reasons when it is
stuck.
"""
