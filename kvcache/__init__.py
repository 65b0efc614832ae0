"""What the fabric knows about KV blocks: keys, traces, policy documents, eviction, tiering decisions, cost models.

Pure by rule: no Django, no sockets, no clock of its own, no file it was not handed. The storage agent and the what-if
simulator both run the classes in here, so a simulation is the same decision procedure and not an imitation of it.
"""
