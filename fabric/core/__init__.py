"""Shared kernel without domain meaning: abstract models, actor, errors, API and page base classes. Imports nothing of ours."""
