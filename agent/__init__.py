"""The storage agent: holds and moves KV blocks, obeys a pushed policy, and reports what it sees. No Django in here."""
