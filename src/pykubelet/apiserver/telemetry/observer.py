"""Sees every request from its beginning to its end, counts it, and writes down what the audit policy wants of it."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec
from aiohttp import web

from pykubelet.apiserver.objects import new_uid
from pykubelet.apiserver.requests.access import IDENTIFIED
from pykubelet.apiserver.requests.audit_id import AUDIT_ID, HEADER
from pykubelet.apiserver.telemetry.audit import audit_line
from pykubelet.apiserver.telemetry.audit_log import AuditLog
from pykubelet.apiserver.telemetry.audit_policy import Depth, Policy, Stage, depth
from pykubelet.apiserver.telemetry.seen import Seen
from pykubelet.apiserver.telemetry.tallies import Tallies

_LONGEST_ID: Final = 64
_UNSEEN: Final = Depth()


class Auditing(msgspec.Struct, frozen=True):
    policy: Policy
    log: AuditLog


class Observer:
    def __init__(self, now: Callable[[], datetime], auditing: Auditing | None) -> None:
        self._now = now
        self._auditing = auditing
        self.tallies = Tallies()
        self.is_auditing = auditing is not None

    def begin(self, request: web.Request) -> Seen:
        """Who gives his request a name finds it by that in the log, and the server's in every answer."""
        given = request.headers.get(HEADER, "")
        name = given if 0 < len(given) <= _LONGEST_ID and given.isprintable() else new_uid()
        request[AUDIT_ID] = name
        return Seen(request, time.perf_counter(), self._now() if self.is_auditing else None, name)

    async def known(self, seen: Seen) -> None:
        """Who it is: the log is told before anything is done."""
        if self._auditing is not None and self._note(seen, "RequestReceived"):
            await self._auditing.log.room()

    def wants_answer(self, seen: Seen) -> bool:
        return seen.depth is not None and seen.depth.level == "RequestResponse"

    def lasts(self, seen: Seen) -> None:
        """The answer has begun, and will go on for as long as the client likes."""
        seen.is_long = True
        self.tallies.begins(seen)
        if self._auditing is not None:
            seen.code = seen.code or 200
            self._note(seen, "ResponseStarted")

    def end(self, seen: Seen, response: web.StreamResponse | None) -> None:
        """Without a response, the client has gone before there was one."""
        if response is not None:
            if not response.prepared:
                response.headers[HEADER] = seen.audit_id
            seen.code = response.status
            if not seen.size and isinstance(response, web.Response) and isinstance(response.body, bytes):
                seen.size = len(response.body)
                if seen.code >= 400 or self.wants_answer(seen):
                    seen.answer = response.body
        seen.code = seen.code or 499
        if self._auditing is not None:
            if seen.depth is None:
                self._note(seen, "RequestReceived")
            self._note(seen, "ResponseComplete")
        self.tallies.ends(seen, time.perf_counter() - seen.began)

    def _note(self, seen: Seen, stage: Stage) -> bool:
        """Whether there was anything to write."""
        assert self._auditing is not None
        if seen.depth is None:
            user = seen.request.get(IDENTIFIED)
            seen.depth = depth(self._auditing.policy, seen.info, user) if seen.info is not None else _UNSEEN
            self.tallies.audits(seen.depth.level)
        if seen.depth.level == "None" or stage in seen.depth.omitted:
            return False
        now = self._now()
        received = seen.received or now
        moment = received if stage == "RequestReceived" else now
        self._auditing.log.write(audit_line(seen, stage, received, moment))
        self.tallies.audited()
        return True
