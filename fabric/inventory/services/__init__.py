"""Writes of inventory: what operators declare, and what agents discover."""

from fabric.inventory.services.devices import (
    create_dpu,
    create_host,
    create_ssd,
    create_switch,
    delete_dpu,
    delete_host,
    delete_ssd,
    delete_switch,
    update_dpu,
    update_host,
    update_ssd,
    update_switch,
)
from fabric.inventory.services.discovery import record_host_inventory
from fabric.inventory.services.places import (
    create_pod,
    create_site,
    delete_pod,
    delete_site,
    update_pod,
    update_site,
)

__all__ = [
    "create_dpu",
    "create_host",
    "create_pod",
    "create_site",
    "create_ssd",
    "create_switch",
    "delete_dpu",
    "delete_host",
    "delete_pod",
    "delete_site",
    "delete_ssd",
    "delete_switch",
    "record_host_inventory",
    "update_dpu",
    "update_host",
    "update_pod",
    "update_site",
    "update_ssd",
    "update_switch",
]
