"""Forms of the inventory. An empty field is an unknown fact: it is stored as unknown, never as zero."""

from typing import Any

from django import forms
from django.utils.text import slugify

from fabric.core.web.forms import SizeField, VersionedForm, choices_of, with_unit
from fabric.inventory.models import Dpu, Host, LifeCycle, Pod, Site


def _line(label: str, help_text: str = "", *, required: bool = False, max_length: int = 255) -> forms.CharField:
    return forms.CharField(label=label, help_text=help_text, required=required, max_length=max_length)


def _count(label: str, help_text: str = "") -> forms.IntegerField:
    return forms.IntegerField(label=label, help_text=help_text, required=False, min_value=1)


def _text(label: str, help_text: str = "") -> forms.CharField:
    return forms.CharField(
        label=label, help_text=help_text, required=False, widget=forms.Textarea(attrs={"rows": 3}), max_length=10_000
    )


class NounForm(VersionedForm):
    """Base: gives what was typed as the facts that services take (`pod` becomes `pod_id`). Long texts stand last."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.order_fields(sorted(self.fields, key=lambda name: name in ("notes", "description")))

    def facts(self) -> dict[str, Any]:
        """Return the cleaned fields by the services' parameter names."""
        facts: dict[str, Any] = {}
        for name, value in self.cleaned_data.items():
            if isinstance(self.fields[name], forms.ModelChoiceField):
                facts[f"{name}_id"] = value.pk if value else None
            else:
                facts[name] = value
        return facts

    def initial_of(self, row: Any) -> dict[str, Any]:
        """Return what the form shows of a row."""
        shown = {name: getattr(row, name) for name in self.fields if name != "expected_version"}
        return {**shown, "expected_version": row.version}


class SiteForm(NounForm):
    """A site."""

    name = _line("Name", "Such as `Frankfurt 2`.", required=True, max_length=100)
    slug = _line(
        "Short name", "Lower case, for addresses and files. Left empty, it is made of the name.", max_length=100
    )
    description = _text("Description", "Where it is, and whom to call.")

    def clean(self) -> dict[str, Any]:
        """Make the short name where none was given."""
        data = super().clean() or {}
        if not data.get("slug") and data.get("name"):
            data["slug"] = slugify(data["name"])
        return data


class PodForm(NounForm):
    """A pod."""

    site = forms.ModelChoiceField(queryset=Site.objects.order_by("name"), help_text="The place it stands in.")
    name = _line("Name", "Unique in its site, such as `pod-1`.", required=True, max_length=100)
    description = _text("Description")


class DeviceForm(NounForm):
    """What every device has."""

    name = _line("Name", "As people call it; the serial number identifies it.", required=True)
    manufacturer = _line("Manufacturer")
    model = _line("Model")
    serial = _line("Serial number", "Unique; discovery finds the device by it.")
    firmware = _line("Firmware")
    life_cycle = forms.ChoiceField(label="Life cycle", choices=choices_of(LifeCycle), initial=LifeCycle.ACTIVE.value)
    notes = _text("Notes")


class HostForm(DeviceForm):
    """A host."""

    pod = forms.ModelChoiceField(
        queryset=Pod.objects.select_related("site"),
        required=False,
        empty_label="none",
        help_text="The pod it belongs to.",
    )
    os = _line("Operating system")
    architecture = _line("Architecture", "Such as `x86_64` or `aarch64`.", max_length=64)
    cpu_model = _line("CPU model")
    cpu_threads = _count("CPU threads")
    memory_bytes = SizeField(label="Memory", required=False, help_text="Such as `1 TiB`.")
    field_order = ("name", "pod", "life_cycle", "manufacturer", "model", "serial", "firmware")


class DpuForm(DeviceForm):
    """A DPU."""

    host = forms.ModelChoiceField(
        queryset=Host.objects.order_by("name"), required=False, empty_label="none", help_text="The machine it is in."
    )
    mode = _line("Mode", "Such as `DPU` or `NIC`.", max_length=32)
    bmc_address = _line("BMC address")
    base_mac = _line("Base MAC", "Such as `02:00:5e:10:00:01`.", max_length=17)
    port_count = _count("Ports")
    field_order = ("name", "host", "life_cycle", "manufacturer", "model", "serial", "firmware")


class SsdForm(DeviceForm):
    """An SSD."""

    host = forms.ModelChoiceField(
        queryset=Host.objects.order_by("name"), required=False, empty_label="none", help_text="The machine it is in."
    )
    dpu = forms.ModelChoiceField(
        label="DPU",
        queryset=Dpu.objects.order_by("name"),
        required=False,
        help_text="The DPU that serves it, if one does.",
    )
    transport = _line("Transport", "Such as `nvme`, `nvme-tcp`, `sata`.", max_length=32)
    nqn = _line("NQN", "NVMe qualified name.")
    capacity_bytes = SizeField(label="Capacity", required=False, help_text="Such as `3.84 TiB` or plain bytes.")
    logical_block_bytes = with_unit(_count("Logical block"), "bytes")
    endurance_dwpd = forms.FloatField(
        label="Endurance", required=False, min_value=0, help_text="Drive writes per day that the vendor declares."
    )
    rotational = forms.NullBooleanField(label="Rotating disk", required=False)
    field_order = ("name", "host", "dpu", "life_cycle", "manufacturer", "model", "serial", "firmware")


class SwitchForm(DeviceForm):
    """A switch."""

    pod = forms.ModelChoiceField(
        queryset=Pod.objects.select_related("site"), required=False, empty_label="none", help_text="The pod it serves."
    )
    management_address = _line("Management address")
    os = _line("Operating system", "Such as `Cumulus Linux 5.9`.")
    port_count = _count("Ports")
    field_order = ("name", "pod", "life_cycle", "manufacturer", "model", "serial", "firmware")
