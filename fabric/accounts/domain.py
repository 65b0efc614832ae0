"""Pure rules of accounts."""

from datetime import timedelta
from typing import Final

from fabric.core.actor import Role

API_TOKEN_PREFIX: Final = "kvt1"  # noqa: S105
API_TOKEN_LIFE: Final = timedelta(days=90)
"""How long a token lives when its maker does not say."""
LAST_USED_STEP: Final = timedelta(minutes=1)
"""The time of last use is written at most so often."""
GENERATED_PASSWORD_CHARS: Final = 24
LOGIN_WINDOW_S: Final = 60
LOGINS_PER_ADDRESS: Final = 10
LOGINS_PER_NAME: Final = 30
"""Attempts a minute; higher for a name, since an attacker could otherwise lock its owner out cheaply."""
PASSWORD_ATTEMPTS: Final = 5
"""Attempts a minute to change one's password."""

ROLES: Final = tuple(role.value for role in Role)
