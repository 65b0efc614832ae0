"""Celery tasks of telemetry."""

import logging
import time

from celery import shared_task

from telemetry.series.query import retention_from_settings
from telemetry.series.rollup import roll_up as roll_up_series

logger = logging.getLogger(__name__)

BUDGET_S = 8.0
"""Below the beat's interval: what is left over waits for the next run."""


@shared_task(name="telemetry.tasks.roll_up", ignore_result=True)
def roll_up() -> None:
    """Compact the tick log and purge what has had its time. Any number may run at once."""
    report = roll_up_series(now_s=time.time(), retention=retention_from_settings(), budget_s=BUDGET_S)
    if not report.finished:
        logger.warning("the roll-up does not keep up: %d buckets in this run, more are due", report.buckets)
