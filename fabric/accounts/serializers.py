"""What of accounts is shown and typed in. No serializer here knows a digest or a password hash."""

from typing import Any

from rest_framework import serializers

from fabric.accounts.models import ROLE_CHOICES, ApiToken, User
from fabric.core.api.serializers import FlagField, InputSerializer, TextField


class UserSerializer(serializers.ModelSerializer[User]):
    """A person."""

    class Meta:
        model = User
        fields = ["id", "username", "email", "role", "is_active", "last_login", "date_joined"]
        read_only_fields = fields


class MadeUserSerializer(UserSerializer):
    """A person just made, with the generated password: the only time that it is shown."""

    generated_password = serializers.CharField(allow_null=True, help_text="Null where the caller chose the password.")

    class Meta(UserSerializer.Meta):
        fields = [*UserSerializer.Meta.fields, "generated_password"]


class UserInput(InputSerializer):
    """A new person."""

    username = TextField(max_length=150)
    role = serializers.ChoiceField(choices=ROLE_CHOICES)
    email = serializers.EmailField(max_length=254, required=False, allow_blank=True)
    password = TextField(
        max_length=1000, trim_whitespace=False, required=False, write_only=True, help_text="Generated when absent."
    )


class UserChange(InputSerializer):
    """What an admin may change of a person."""

    role = serializers.ChoiceField(choices=ROLE_CHOICES, required=False)
    is_active = FlagField(required=False)


class ResetPasswordSerializer(serializers.Serializer[Any]):
    """A generated password: the only time that it is shown."""

    generated_password = serializers.CharField()


class MeSerializer(serializers.Serializer[Any]):
    """Who is asking."""

    kind = serializers.CharField(help_text="user or token")
    id = serializers.CharField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLE_CHOICES)
    time_zone = serializers.CharField(allow_blank=True)
    theme = serializers.CharField()


class PreferencesInput(InputSerializer):
    """One's own preferences."""

    time_zone = TextField(max_length=64, required=False, allow_blank=True, help_text="An IANA name; empty: the site's.")
    theme = TextField(max_length=16, required=False)


class PasswordInput(InputSerializer):
    """A change of one's own password."""

    old_password = TextField(max_length=1000, trim_whitespace=False, write_only=True)
    new_password = TextField(max_length=1000, trim_whitespace=False, write_only=True)


class ApiTokenSerializer(serializers.ModelSerializer[ApiToken]):
    """A token as it is listed: never its secret."""

    user = serializers.CharField(source="user.username", read_only=True)

    class Meta:
        model = ApiToken
        fields = [
            "id",
            "name",
            "key_id",
            "user",
            "role",
            "created_at",
            "expires_at",
            "last_used_at",
            "revoked_at",
        ]
        read_only_fields = fields


class MadeApiTokenSerializer(ApiTokenSerializer):
    """A token just made, with its text: the only time that it is shown."""

    token = serializers.CharField(read_only=True, help_text="Send it as `Authorization: Bearer …`. It is not kept.")

    class Meta(ApiTokenSerializer.Meta):
        fields = [*ApiTokenSerializer.Meta.fields, "token"]
        read_only_fields = fields


class ApiTokenInput(InputSerializer):
    """A new token. Role and expiry cannot be changed later."""

    name = TextField(max_length=100)
    role = serializers.ChoiceField(choices=ROLE_CHOICES, help_text="At most the maker's own.")
    expires_at = serializers.DateTimeField(
        required=False, allow_null=True, help_text="90 days from now when absent; null: never."
    )
