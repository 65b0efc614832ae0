"""Reads targets: fetches exposition text within limits, parses it, and keeps what the KPI catalogue knows."""
