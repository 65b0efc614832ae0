"""Sites, pods, hosts, DPUs, SSDs, switches and network interfaces. An unknown fact is NULL, never zero or an empty
guess.
"""

from django.db import models
from django.urls import reverse

from fabric.core.models import Timestamped, UUIDModel, Versioned


class Source(models.TextChoices):
    """Where a row's facts come from."""

    DECLARED = "declared", "Declared by an operator"
    DISCOVERED = "discovered", "Discovered by an agent"


class LifeCycle(models.TextChoices):
    """Life-cycle status of a device."""

    PLANNED = "planned", "Planned"
    ACTIVE = "active", "Active"
    MAINTENANCE = "maintenance", "In maintenance"
    RETIRED = "retired", "Retired"
    MISSING = "missing", "Missing from last discovery"


class Site(UUIDModel, Timestamped, Versioned):
    """A place: a data centre or a hall."""

    name = models.CharField(max_length=100, unique=True)
    slug = models.SlugField(max_length=100, unique=True)
    description = models.TextField(blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("inventory:site", args=[self.pk])


class Pod(UUIDModel, Timestamped, Versioned):
    """A group of racks whose shared flash (G3.5) is reached over one fabric."""

    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="pods")
    name = models.CharField(max_length=100)
    description = models.TextField(blank=True)

    class Meta:
        ordering = ["site__name", "name"]
        constraints = [models.UniqueConstraint(fields=["site", "name"], name="pod_name_once_per_site")]

    def __str__(self) -> str:
        return f"{self.site.name} / {self.name}"

    def get_absolute_url(self) -> str:
        return reverse("inventory:pod", args=[self.pk])


class Device(UUIDModel, Timestamped, Versioned):
    """What every piece of hardware has: identity, life cycle, and where its facts come from and when they were seen."""

    name = models.CharField(max_length=255)
    manufacturer = models.CharField(max_length=255, blank=True)
    model = models.CharField(max_length=255, blank=True)
    serial = models.CharField(max_length=255, blank=True)
    firmware = models.CharField(max_length=255, blank=True)
    life_cycle = models.CharField(max_length=16, choices=LifeCycle.choices, default=LifeCycle.ACTIVE)
    notes = models.TextField(blank=True)
    source = models.CharField(max_length=16, choices=Source.choices, default=Source.DECLARED)
    source_detail = models.CharField(max_length=255, blank=True)
    first_seen_at = models.DateTimeField(null=True, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Host(Device):
    """A server: a GPU node, or whatever an agent runs on."""

    pod = models.ForeignKey(Pod, on_delete=models.PROTECT, null=True, blank=True, related_name="hosts")
    machine_id_hash = models.CharField(max_length=64, null=True, blank=True, unique=True)
    os = models.CharField(max_length=255, blank=True)
    kernel = models.CharField(max_length=255, blank=True)
    architecture = models.CharField(max_length=64, blank=True)
    cpu_model = models.CharField(max_length=255, blank=True)
    cpu_threads = models.PositiveIntegerField(null=True, blank=True)
    memory_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    rapl_readable = models.BooleanField(null=True, blank=True)

    class Meta:
        ordering = ["name"]

    def get_absolute_url(self) -> str:
        return reverse("inventory:host", args=[self.pk])


class Dpu(Device):
    """A data processing unit, in a host or a flash enclosure."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, null=True, blank=True, related_name="dpus")
    mode = models.CharField(max_length=32, blank=True)
    bmc_address = models.CharField(max_length=255, blank=True)
    base_mac = models.CharField(max_length=17, blank=True)
    port_count = models.PositiveSmallIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        verbose_name = "DPU"
        constraints = [
            models.UniqueConstraint(fields=["serial"], condition=~models.Q(serial=""), name="dpu_serial_once")
        ]

    def get_absolute_url(self) -> str:
        return reverse("inventory:dpu", args=[self.pk])


class Ssd(Device):
    """A drive or another block device that can hold KV blocks."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, null=True, blank=True, related_name="ssds")
    dpu = models.ForeignKey(Dpu, on_delete=models.SET_NULL, null=True, blank=True, related_name="ssds")
    transport = models.CharField(max_length=32, blank=True)
    nqn = models.CharField(max_length=255, blank=True)
    capacity_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    logical_block_bytes = models.PositiveIntegerField(null=True, blank=True)
    rotational = models.BooleanField(null=True, blank=True)
    temperature_c = models.FloatField(null=True, blank=True)
    endurance_dwpd = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        verbose_name = "SSD"
        constraints = [
            models.UniqueConstraint(
                fields=["serial", "model"], condition=~models.Q(serial=""), name="ssd_serial_model_once"
            ),
            models.UniqueConstraint(
                fields=["host", "name"], condition=models.Q(serial=""), name="ssd_name_once_per_host"
            ),
            models.CheckConstraint(
                condition=models.Q(capacity_bytes__isnull=True) | models.Q(capacity_bytes__gt=0), name="ssd_capacity"
            ),
        ]

    def get_absolute_url(self) -> str:
        return reverse("inventory:ssd", args=[self.pk])


class Switch(Device):
    """A Spectrum-class Ethernet switch."""

    pod = models.ForeignKey(Pod, on_delete=models.PROTECT, null=True, blank=True, related_name="switches")
    management_address = models.CharField(max_length=255, blank=True)
    os = models.CharField(max_length=255, blank=True)
    port_count = models.PositiveSmallIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "switches"
        constraints = [
            models.UniqueConstraint(fields=["serial"], condition=~models.Q(serial=""), name="switch_serial_once")
        ]

    def get_absolute_url(self) -> str:
        return reverse("inventory:switch", args=[self.pk])


class NetworkInterface(UUIDModel, Timestamped):
    """A host's network interface as discovered; kernel names are for display, the MAC identifies."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="network_interfaces")
    dpu = models.ForeignKey(Dpu, on_delete=models.SET_NULL, null=True, blank=True, related_name="network_interfaces")
    name = models.CharField(max_length=64)
    kind = models.CharField(max_length=16)
    mac = models.CharField(max_length=17, blank=True)
    speed_mbps = models.PositiveIntegerField(null=True, blank=True)
    mtu = models.PositiveIntegerField(null=True, blank=True)
    state = models.CharField(max_length=32, blank=True)
    driver = models.CharField(max_length=64, blank=True)
    source_detail = models.CharField(max_length=255, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["host", "name"]
        constraints = [models.UniqueConstraint(fields=["host", "name"], name="interface_name_once_per_host")]

    def __str__(self) -> str:
        return self.name
