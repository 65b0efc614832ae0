"""The control plane: inventory, pools, agents, policies, rollouts, accounts, audit (a Django project and its apps)."""

from fabric.celery import app as celery_app

__all__ = ["celery_app"]
