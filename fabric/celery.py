"""Celery: a nudge and never the record of work. The database row is the truth; losing every message loses no work."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fabric.settings")

app = Celery("fabric")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
