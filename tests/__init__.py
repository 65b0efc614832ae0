"""Tests mirror the code's folders; `support/` holds what several of them need."""
