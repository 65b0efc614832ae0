"""Celery tasks of agents."""

from celery import shared_task

from fabric.agents import services


@shared_task(name="fabric.agents.tasks.purge_expired")
def purge_expired() -> None:
    """Throw away expired nonces and access tokens."""
    services.purge_expired()
