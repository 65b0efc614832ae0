"""Who may read this agent: the control plane by a signed grant, local tools by the token in the state directory."""

import hmac
from collections.abc import Sequence

from agent.manage.problem import Problem
from agent.manage.state import ManageState
from agent.protocol import Envelope, ProtocolError

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="kvagent"'}


class ReadAccess:
    """Checks the `Authorization` header of a read."""

    def __init__(self, state: ManageState, metrics_token: str) -> None:
        self._state = state
        self._metrics_token = metrics_token.encode()

    def require(self, authorization: Sequence[str]) -> None:
        """Let a request pass that carries one good bearer token.

        Raises:
            Problem: 401, naming what is wrong with the token but nothing about this agent.
        """
        if len(authorization) != 1:
            raise _refused("one Authorization header with a bearer token is needed")
        scheme, _, token = authorization[0].partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _refused("a bearer token is needed: a read grant, or the agent's own metrics token")
        # Header bytes that are no UTF-8 arrive as surrogates.
        if hmac.compare_digest(token.encode(errors="surrogateescape"), self._metrics_token):
            return
        self._require_grant(token)

    def _require_grant(self, token: str) -> None:
        identity = self._state.identity
        try:
            envelope = Envelope.from_bearer(token)
            if identity is None:
                raise ProtocolError("this agent is not enrolled: it believes no control plane yet")
            envelope.open_grant(
                keys=identity.control_plane_keys,
                audience=identity.agent_id,
                now_s=self._state.control_plane_now_s(),
            )
        except ProtocolError as error:
            raise _refused(str(error)) from error


def _refused(detail: str) -> Problem:
    return Problem(401, "not-authenticated", detail, headers=_CHALLENGE)
