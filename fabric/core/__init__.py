"""Shared kernel without domain meaning: abstract models, actor, errors, bases of API and pages. Imports no app."""
