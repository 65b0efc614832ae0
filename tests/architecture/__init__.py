"""Rules about the code itself that import-linter cannot express."""
