"""The whole fabric as a newcomer meets it: `manage.py up`, a real browser, real kills."""
