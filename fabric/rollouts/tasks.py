"""Celery tasks: ids in, one service call, short. Losing one loses nothing; running one twice changes nothing."""

from uuid import UUID

from celery import shared_task

from fabric.rollouts import services


@shared_task(name="fabric.rollouts.tasks.push_target")
def push_target(target_id: str) -> None:
    """Push one target, if it is due and nobody else owns it."""
    services.push_target(target_id=UUID(target_id))


@shared_task(name="fabric.rollouts.tasks.sweep_rollouts")
def sweep_rollouts() -> None:
    """Run the sweeper once; beat calls it every few seconds."""
    services.sweep_rollouts()
