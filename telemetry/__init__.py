"""Shows what the fabric does: scrape → series → KPIs → live streams and charts (a Django app)."""
