"""The kinds of things that the inventory's pages show, each once: how it is called, listed, typed in and written."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Model, QuerySet

from fabric.core.actor import Actor
from fabric.core.web.filters import FilterSet
from fabric.core.web.tables import Table
from fabric.inventory import filters, forms, selectors, services, tables


@dataclass(frozen=True, slots=True)
class Noun:
    """One kind of thing. `key` names its routes (`inventory:<key>`), its template and the services' id parameter."""

    key: str
    plural_key: str
    one: str
    many: str
    icon: str
    intro: str
    teach: str
    rows: Callable[[Actor], QuerySet[Any]]
    table: type[Table]
    filterset: type[FilterSet]
    form: type[forms.NounForm]
    create: Callable[..., Model]
    update: Callable[..., Model]
    delete: Callable[..., None]
    relations: Callable[[Actor, Any], list[tuple[str, Table]]]

    @property
    def object_type(self) -> str:
        """The name under which the audit log knows it."""
        return f"inventory.{self.key}"


def _of_site(actor: Actor, row: Any) -> list[tuple[str, Table]]:
    return [
        ("Pods", tables.PodTable(selectors.pods_for_list(actor).filter(site=row), prefix="pods-", exclude=("site",)))
    ]


def _of_pod(actor: Actor, row: Any) -> list[tuple[str, Table]]:
    return [
        ("Hosts", tables.HostTable(selectors.hosts_for_list(actor).filter(pod=row), prefix="hosts-", exclude=("pod",))),
        (
            "Switches",
            tables.SwitchTable(selectors.switches_for_list(actor).filter(pod=row), prefix="sw-", exclude=("pod",)),
        ),
    ]


def _of_host(actor: Actor, row: Any) -> list[tuple[str, Table]]:
    return [
        ("SSDs", tables.SsdTable(selectors.ssds_for_list(actor).filter(host=row), prefix="ssds-", exclude=("host",))),
        ("DPUs", tables.DpuTable(selectors.dpus_for_list(actor).filter(host=row), prefix="dpus-", exclude=("host",))),
        (
            "Network interfaces",
            tables.InterfaceTable(selectors.interfaces_for_list(actor).filter(host=row), prefix="nics-"),
        ),
    ]


def _of_dpu(actor: Actor, row: Any) -> list[tuple[str, Table]]:
    return [
        ("SSDs", tables.SsdTable(selectors.ssds_for_list(actor).filter(dpu=row), prefix="ssds-")),
        (
            "Network interfaces",
            tables.InterfaceTable(selectors.interfaces_for_list(actor).filter(dpu=row), prefix="nics-"),
        ),
    ]


def _of_nothing(actor: Actor, row: Any) -> list[tuple[str, Table]]:
    return []


_DISCOVERY = "Agents report the devices of their host when they join; what they cannot see is declared here."

SITE = Noun(
    "site", "sites", "site", "Sites", "site",
    "Places: data centres or halls.",
    "A site holds pods. One is enough to begin with.",
    selectors.sites_for_list, tables.SiteTable, filters.SiteFilter, forms.SiteForm,
    services.create_site, services.update_site, services.delete_site, _of_site,
)  # fmt: skip
POD = Noun(
    "pod", "pods", "pod", "Pods", "pod",
    "Groups of racks whose shared flash is reached over one fabric.",
    "A pod is the reach of warm KV blocks: hosts of one pod share them over RDMA or Ethernet.",
    selectors.pods_for_list, tables.PodTable, filters.PodFilter, forms.PodForm,
    services.create_pod, services.update_pod, services.delete_pod, _of_pod,
)  # fmt: skip
HOST = Noun(
    "host", "hosts", "host", "Hosts", "host",
    "Servers: GPU nodes, and whatever agents run on.",
    f"A host appears by itself when an agent on it joins. {_DISCOVERY}",
    selectors.hosts_for_list, tables.HostTable, filters.HostFilter, forms.HostForm,
    services.create_host, services.update_host, services.delete_host, _of_host,
)  # fmt: skip
DPU = Noun(
    "dpu", "dpus", "DPU", "DPUs", "dpu",
    "Data processing units in hosts and flash enclosures.",
    _DISCOVERY,
    selectors.dpus_for_list, tables.DpuTable, filters.DpuFilter, forms.DpuForm,
    services.create_dpu, services.update_dpu, services.delete_dpu, _of_dpu,
)  # fmt: skip
SSD = Noun(
    "ssd", "ssds", "SSD", "SSDs", "ssd",
    "Drives and other block devices that can hold KV blocks.",
    _DISCOVERY,
    selectors.ssds_for_list, tables.SsdTable, filters.SsdFilter, forms.SsdForm,
    services.create_ssd, services.update_ssd, services.delete_ssd, _of_nothing,
)  # fmt: skip
SWITCH = Noun(
    "switch", "switches", "switch", "Switches", "switch",
    "Ethernet switches between hosts and flash.",
    "No agent sees a switch from inside yet, so switches are declared by hand.",
    selectors.switches_for_list, tables.SwitchTable, filters.SwitchFilter, forms.SwitchForm,
    services.create_switch, services.update_switch, services.delete_switch, _of_nothing,
)  # fmt: skip

NOUNS = (SITE, POD, HOST, DPU, SSD, SWITCH)
