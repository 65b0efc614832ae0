"""Serializers of input: strict about names and types."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request

MAX_UNKNOWN_NAMED = 5


class InputSerializer(serializers.Serializer[Any]):
    """What a caller may send: unknown and read-only fields are errors, not ignored, so that no typo passes for a
    default.
    """

    def to_internal_value(self, data: Any) -> Any:
        """Refuse names that are not fields, then parse."""
        if isinstance(data, Mapping):
            known = [name for name, field in self.fields.items() if not field.read_only]
            unknown = [str(name)[:64] for name in data if name not in known]
            if unknown:
                message = f"there is no such field here; there are: {', '.join(known)}"
                raise serializers.ValidationError({name: [message] for name in unknown[:MAX_UNKNOWN_NAMED]})
        return super().to_internal_value(data)


class WholeNumberField(serializers.IntegerField):
    """A JSON integer: neither a boolean nor a text nor a float passes for one. Give it `max_value`: databases have
    limits.
    """

    def to_internal_value(self, data: Any) -> int:
        """Return the integer."""
        if isinstance(data, bool) or not isinstance(data, int):
            raise serializers.ValidationError("this is not a whole number")
        return super().to_internal_value(data)


class NumberField(serializers.FloatField):
    """A finite JSON number: neither a boolean nor a text passes for one."""

    def to_internal_value(self, data: Any) -> float:
        """Return the number."""
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise serializers.ValidationError("this is not a number")
        return super().to_internal_value(data)


class TextField(serializers.CharField):
    """A JSON text: numbers and booleans do not pass for one."""

    def to_internal_value(self, data: Any) -> str:
        """Return the text."""
        if not isinstance(data, str):
            raise serializers.ValidationError("this is not a text")
        data.encode()  # a lone surrogate is a UnicodeError, answered 400
        return super().to_internal_value(data)


class IdField(serializers.UUIDField):
    """A UUID as text: the id of another object. It is only ever compared for equality."""

    def to_internal_value(self, data: Any) -> UUID:
        """Return the id."""
        if not isinstance(data, str):
            raise serializers.ValidationError("this is not an id")
        return super().to_internal_value(data)


class FlagField(serializers.BooleanField):
    """A JSON true or false: no text or number passes for one."""

    def to_internal_value(self, data: Any) -> bool:
        """Return the flag."""
        if not isinstance(data, bool):
            raise serializers.ValidationError("this is neither true nor false")
        return data


class ReasonInput(InputSerializer):
    """Why a verb is used; it goes into the audit log."""

    reason = TextField(max_length=2000, required=False, allow_blank=True)


class ProblemFieldSerializer(serializers.Serializer[Any]):
    """One field at fault."""

    field = serializers.CharField()
    problem = serializers.CharField()
    remedy = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """An RFC 9457 problem body."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    problems = ProblemFieldSerializer(many=True, required=False)


def parsed(serializer: type[serializers.Serializer[Any]], request: Request, *, partial: bool = False) -> dict[str, Any]:
    """Return the body of `request` as `serializer` understands it. Raises `ValidationError` (400) naming the fields."""
    bound = serializer(data=request.data, partial=partial)
    bound.is_valid(raise_exception=True)
    return dict(bound.validated_data)
