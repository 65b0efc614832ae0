"""The policy document, version fabric/v1: what each tier keeps, and for how long.

Every field has a default, a unit, a range and a help sentence in its JSON schema, of which forms are made.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from kvcache.canonical import canonical_json, sha256_digest

VERSION: Literal["fabric/v1"] = "fabric/v1"
MAX_CAPACITY_BYTES = 1 << 50
"""One PiB: more than any one agent holds, and still exact in every JSON reader."""
MAX_TTL_S = 365.0 * 24 * 3600

CAPACITY_HELP = (
    "How large this tier may grow: a share of the agent's limit or a number of bytes, exactly one of the two."
)

EvictionName = Literal["lru", "fifo"]


def _number(value: Any) -> Any:
    """Refuse what Python or YAML would silently take for a number: booleans and texts."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PydanticCustomError("not_a_number", "this is not a number")
    if isinstance(value, int) and abs(value) > MAX_CAPACITY_BYTES:
        raise PydanticCustomError("too_large", "this number is too large")
    return value


def _whole_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PydanticCustomError("not_a_whole_number", "this is not a whole number")
    return value


def _positive_zero(value: float) -> float:
    """-0.0 equals 0.0 but prints differently, and two spellings of one policy must have one digest."""
    return value + 0.0


Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_number), AfterValidator(_positive_zero)]
Watermark = Annotated[float, Field(gt=0, le=1), BeforeValidator(_number)]
Seconds = Annotated[float, Field(gt=0, le=MAX_TTL_S), BeforeValidator(_number)]
ByteCount = Annotated[int, Field(ge=0, le=MAX_CAPACITY_BYTES), BeforeValidator(_whole_number)]
HitCount = Annotated[int, Field(ge=1, le=1000), BeforeValidator(_whole_number)]
Switch = Annotated[bool, Field(strict=True)]


def _unit(unit: str | None) -> dict[str, Any]:
    return {"unit": unit}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Capacity(_Part):
    """How large a tier may grow: a share of the agent's limit, or a number of bytes. Exactly one of the two."""

    share: Share | None = Field(
        default=None,
        title="Share of the limit",
        description="Part of the limit which the agent declares for this tier; 0 switches the tier off.",
        json_schema_extra=_unit("ratio"),
    )
    bytes: ByteCount | None = Field(
        default=None,
        title="Bytes",
        description="Absolute size of this tier on each agent; 0 switches the tier off.",
        json_schema_extra=_unit("bytes"),
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.share is None) == (self.bytes is None):
            raise PydanticCustomError("exactly_one", "give exactly one of share and bytes")
        return self

    @model_serializer(mode="wrap")
    def _only_the_chosen_one(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


class TierPolicy(_Part):
    """What every tier has: capacity, order of eviction, watermarks, time to live."""

    capacity: Capacity = Field(
        default=Capacity(share=0.25),
        title="Capacity",
        description=CAPACITY_HELP,
        json_schema_extra=_unit(None),
    )
    eviction: EvictionName = Field(
        default="lru",
        title="Eviction",
        description=(
            "Which block leaves first: lru drops the least recently used (the tail of a request before its head), "
            "fifo the first written."
        ),
        json_schema_extra=_unit(None),
    )
    high_watermark: Watermark = Field(
        default=1.0,
        title="High watermark",
        description="Eviction starts when a new block would fill this tier past this part of its capacity.",
        json_schema_extra=_unit("ratio"),
    )
    low_watermark: Watermark = Field(
        default=1.0,
        validate_default=True,
        title="Low watermark",
        description="Once started, eviction goes on down to this part of the capacity; not above the high watermark.",
        json_schema_extra=_unit("ratio"),
    )
    ttl_s: Seconds | None = Field(
        default=None,
        title="Time to live",
        description="A copy which was not used for this long leaves this tier; empty keeps it until it is evicted.",
        json_schema_extra=_unit("seconds"),
    )

    @field_validator("low_watermark")
    @classmethod
    def _not_above_high(cls, low: float, info: ValidationInfo) -> float:
        high = info.data.get("high_watermark")
        if high is not None and low > high:
            raise PydanticCustomError(
                "low_above_high", "{low} is above the high watermark {high}", {"low": low, "high": high}
            )
        return low


class DramPolicy(TierPolicy):
    """The first tier: host memory."""


class FlashPolicy(TierPolicy):
    """The second tier: flash below the host memory, and when a block goes back up."""

    capacity: Capacity = Field(
        default=Capacity(share=0.5),
        title="Capacity",
        description=CAPACITY_HELP,
        json_schema_extra=_unit(None),
    )
    promote_after_hits: HitCount = Field(
        default=1,
        title="Promote after",
        description="A block found in flash is copied to DRAM at this many hits since it was written to flash.",
        json_schema_extra=_unit("hits"),
    )
    keep_on_promote: Switch = Field(
        default=True,
        title="Keep on promotion",
        description="Leave the flash copy where it is when a block is promoted: same hits, far fewer flash writes.",
        json_schema_extra=_unit(None),
    )


class Tiers(_Part):
    """One policy for each tier."""

    dram: DramPolicy = Field(
        default=DramPolicy(),
        title="DRAM",
        description="Host memory of the agent.",
        json_schema_extra=_unit(None),
    )
    flash: FlashPolicy = Field(
        default=FlashPolicy(),
        title="Flash",
        description="Flash of the agent, below its DRAM.",
        json_schema_extra=_unit(None),
    )


class PolicyDocument(_Part):
    """What an agent keeps, where and for how long. Immutable; two documents with one digest are one policy."""

    version: Literal["fabric/v1"] = Field(
        default=VERSION,
        title="Version",
        description="Version of this document's format.",
        json_schema_extra=_unit(None),
    )
    tiers: Tiers = Field(
        default=Tiers(),
        title="Tiers",
        description="What each tier keeps.",
        json_schema_extra=_unit(None),
    )

    def as_dict(self) -> dict[str, Any]:
        """Return the document as plain JSON values, every default written out and only the capacity that was chosen."""
        return self.model_dump(mode="json")

    def canonical(self) -> bytes:
        """Return canonical JSON (sorted keys, no white space): the bytes that are signed and stored."""
        return canonical_json(self.as_dict())

    def digest(self) -> str:
        """Return `sha256:<64 hex digits>` of `canonical()`."""
        return sha256_digest(self.as_dict())


def default_policy() -> PolicyDocument:
    """Return the policy of an agent that was never told another: a quarter of its DRAM, half of its flash, LRU."""
    return PolicyDocument()


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of `PolicyDocument`: of each property default, `unit`, range, title and description."""
    return PolicyDocument.model_json_schema()
