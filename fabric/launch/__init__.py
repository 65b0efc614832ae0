"""`manage.py up`: supervises the embedded services. Sits on top, since it enrols the local agent and seeds a first pool."""
