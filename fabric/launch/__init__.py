"""`manage.py up`: supervises the embedded services. On top, since it enrols the local agent and seeds a first pool."""
