"""Joining a control plane with a one-time token, and recovering with the key when the access token has expired."""

import asyncio
import logging
import re
import socket
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.config import AgentConfig
from agent.manage.backoff import Backoff
from agent.manage.client import ControlPlaneClient, Refused, Unreachable, wait_or_stop
from agent.manage.conditions import CONTROL_PLANE_UNREACHABLE, IDENTITY_REFUSED
from agent.manage.identity import Identity
from agent.manage.state import ManageState
from agent.protocol import (
    ChallengeReply,
    ChallengeRequest,
    EnrollReply,
    EnrollRequest,
    Refusal,
    RejoinChallengeRequest,
    RejoinRequest,
    enroll_payload,
    public_key_text,
    rejoin_payload,
    sign,
)
from agent.runtime import AGENT_VERSION

TOKEN_POLL_S = 2.0
"""How often a missing or refused token's file is looked at again."""
STORE_RETRY_S = 5.0
MAX_TOKEN_FILE_BYTES = 4096

_TOKEN = re.compile(r"kvj1_([a-z0-9]{8})\.([A-Za-z0-9_-]{20,100})")
_ADVICE = {
    Refusal.TOKEN_UNKNOWN: "the control plane does not know this join token: is it whole, and for this control plane?",
    Refusal.TOKEN_EXPIRED: "the join token has expired: make a new one",
    Refusal.TOKEN_USED: "the join token was used before: make a new one",
    Refusal.TOKEN_REVOKED: "the join token was revoked: make a new one",
    Refusal.TOKEN_SCOPE: "the join token is for another host (serial number) or network: make one for this host",
    Refusal.AGENT_DENIED: "this host's serial number is enrolled under another key: an operator must decide",
}

logger = logging.getLogger("agent.manage")


@dataclass(frozen=True, slots=True)
class JoinToken:
    """A join token's public id and its secret."""

    token_id: str
    secret: str = field(repr=False)


def parse_join_token(text: str) -> JoinToken:
    """Return the token in `text` (`kvj1_<8 characters>.<secret>`, white space around it ignored).

    Raises:
        ValueError: it is not one; the text is not repeated.
    """
    found = _TOKEN.fullmatch(text.strip())
    if found is None:
        raise ValueError("not a join token: it must read kvj1_<8 letters or digits>.<secret>")
    return JoinToken(found[1], found[2])


class Joiner:
    """Gets an identity and gets it back."""

    def __init__(self, state: ManageState, client: ControlPlaneClient, key: Ed25519PrivateKey, manage_url: str) -> None:
        self._state = state
        self._client = client
        self._key = key
        self._manage_url = manage_url
        self._config: AgentConfig = state.runtime.config
        self._spent_token: JoinToken | None = None

    def has_new_token(self) -> bool:
        """Tell whether there is a join token that was neither used nor refused."""
        try:
            token = self._read_token()
        except ValueError:
            return False
        return token is not None and token != self._spent_token

    async def enroll(self, stop: asyncio.Event) -> None:
        """Enrol as soon as there is a token that the control plane takes.

        Returns early when `stop` is set, or when an old identity remains and the new token was refused.
        """
        backoff, said = Backoff(), ""
        while not stop.is_set() and (self._state.identity is None or self.has_new_token()):
            token, delay_s = None, TOKEN_POLL_S
            try:
                token = self._read_token()
                if token is None:
                    said = _say_once(said, f"not enrolled: {self._missing_token()}")
                elif token != self._spent_token:
                    await self._enroll_with(token)
                    return
            except ValueError as error:
                said = _say_once(said, f"not enrolled: {error}")
            except Refused as refused:
                said = _say_once(said, self._refusal_text(refused))
                if refused.refusal in _ADVICE:  # this token can never work: do not send it again
                    self._spent_token = token
                else:
                    delay_s = backoff.next_s()
            except Unreachable as error:
                self._state.conditions.set(CONTROL_PLANE_UNREACHABLE, "true", error.reason, str(error))
                said = _say_once(said, f"not enrolled: the control plane cannot be reached ({error})")
                delay_s = backoff.next_s(error.retry_after_s)
            await wait_or_stop(stop, delay_s)

    async def rejoin(self, identity: Identity) -> Identity:
        """Return the identity with a new access token, got by proving the key and the join sequence.

        Raises:
            Unreachable, Refused: as the client does.
        """
        challenge = await self._client.post(
            "/agent/v1/rejoin/challenge", RejoinChallengeRequest(agent_id=identity.agent_id), ChallengeReply
        )
        proof = rejoin_payload(agent_id=identity.agent_id, nonce=challenge.nonce, join_seq=identity.join_seq)
        request = RejoinRequest(
            agent_id=identity.agent_id,
            nonce=challenge.nonce,
            join_seq=identity.join_seq,
            signature=sign(self._key, proof),
        )
        reply = await self._client.post("/agent/v1/rejoin", request, EnrollReply)
        if reply.agent_id != identity.agent_id or reply.join_seq <= identity.join_seq:
            raise Unreachable(
                "protocol", "the answer to the rejoin is for another agent, or its join sequence did not grow"
            )
        if not identity.control_plane_keys.items() & reply.control_plane_keys.items():
            raise Unreachable("keys", "the control plane signs with none of the keys pinned at enrolment: enrol again")
        await self._keep(identity.rejoined(reply))
        logger.info("rejoined as agent %s, join sequence %d", reply.agent_id, reply.join_seq)
        return identity.rejoined(reply)

    async def _enroll_with(self, token: JoinToken) -> None:
        public_key = public_key_text(self._key)
        state, sent_s = self._state, self._state.now_s()
        challenge = await self._client.post(
            "/agent/v1/enroll/challenge",
            ChallengeRequest(token_id=token.token_id, public_key=public_key),
            ChallengeReply,
        )
        state.note_server_time(challenge.server_time_s, sent_s, state.now_s())
        proof = enroll_payload(nonce=challenge.nonce, token_id=token.token_id, public_key=public_key)
        inventory = await state.inventory.current()
        request = EnrollRequest(
            token_id=token.token_id,
            token_secret=token.secret,
            public_key=public_key,
            nonce=challenge.nonce,
            signature=sign(self._key, proof),
            hostname=inventory.hostname,
            version=AGENT_VERSION,
            serial=inventory.serial,
            manage_url=self._manage_url,
            data_url=for_others(self._config.advertised_data_url),
            capabilities=state.runtime.capabilities(),
        )
        reply = await self._client.post("/agent/v1/enroll", request, EnrollReply)
        if reply.agent_id != state.agent_id:
            # Generations are counted per agent id: under a new one the old count would refuse every push as stale.
            await asyncio.to_thread(state.runtime.begin_generations)
        self._spent_token = token
        await self._keep(Identity.from_reply(reply))
        self._delete_token_file()
        logger.info("enrolled as agent %s", reply.agent_id)

    async def _keep(self, identity: Identity) -> None:
        """Store the identity before it is used: what the control plane has counted must survive a crash here."""
        while True:
            try:
                await asyncio.to_thread(self._state.identity_store.save, identity)
                break
            except OSError as error:
                logger.error("the identity cannot be stored (%s): waiting for the disk", error.strerror)
                await asyncio.sleep(STORE_RETRY_S)
        self._state.identity = identity
        self._state.conditions.set(CONTROL_PLANE_UNREACHABLE, "false", "answered")
        self._state.conditions.set(IDENTITY_REFUSED, "false", "joined")

    def _refusal_text(self, refused: Refused) -> str:
        """Return what the operator should do, and record it as a condition."""
        advice = _ADVICE.get(refused.refusal, str(refused)) if refused.refusal else str(refused)
        self._state.conditions.set(IDENTITY_REFUSED, "true", refused.reason, advice)
        return f"enrolment refused ({refused.reason}): {advice}"

    def _read_token(self) -> JoinToken | None:
        """Return the configured token; None when there is none. Raises `ValueError` when it is not one."""
        if self._config.join_token is not None:
            return _parse_from("KVAGENT_JOIN_TOKEN", self._config.join_token.get_secret_value())
        path = self._config.join_token_file
        if path is None:
            return None
        try:
            with path.open(errors="replace") as file:
                text = file.read(MAX_TOKEN_FILE_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ValueError(f"KVAGENT_JOIN_TOKEN_FILE {path} cannot be read: {error.strerror}") from error
        return _parse_from(f"KVAGENT_JOIN_TOKEN_FILE {path}", text)

    def _missing_token(self) -> str:
        path = self._config.join_token_file
        return f"waiting for a join token in {path}" if path else "no join token (set KVAGENT_JOIN_TOKEN_FILE)"

    def _delete_token_file(self) -> None:
        path = self._config.join_token_file
        if path is not None:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                logger.warning("the used join token in %s could not be deleted: %s", path, error.strerror)


def for_others(url: str) -> str:
    """Return `url` with this host's name where it says "every address", which is no address for others."""
    for every in ("//0.0.0.0:", "//[::]:"):
        url = url.replace(every, f"//{socket.getfqdn()}:")
    return url


def _parse_from(where: str, text: str) -> JoinToken:
    try:
        return parse_join_token(text)
    except ValueError as error:
        raise ValueError(f"{where} is {error}") from None


def _say_once(said: str, text: str) -> str:
    if text != said:
        logger.warning("%s", text)
    return text
