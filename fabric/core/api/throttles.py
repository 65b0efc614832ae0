"""Rate limits that count atomically; REST framework's own read, add and write back."""

from typing import TYPE_CHECKING, Final

from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle

from fabric.core.net import client_address
from fabric.core.ratelimit import register_attempt

if TYPE_CHECKING:
    from rest_framework.views import APIView

_PERIOD_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class AddressThrottle(BaseThrottle):
    """At most the rate of the view's `throttle_scope` (`DEFAULT_THROTTLE_RATES`, such as `60/min`) from one address."""

    _wait_s = 0

    def allow_request(self, request: Request, view: "APIView") -> bool:
        """Count the request; tell whether it is within the rate."""
        scope: str = view.throttle_scope  # type: ignore[attr-defined]
        number, _, period = str(api_settings.DEFAULT_THROTTLE_RATES[scope]).partition("/")
        self._wait_s = register_attempt(
            scope, client_address(request._request), limit=int(number), window_s=_PERIOD_S[period[0]]
        )
        return self._wait_s == 0

    def wait(self) -> float:
        """Return the seconds until the next window."""
        return float(self._wait_s)
