"""What is only good for a time."""

import asyncio

from kit.cluster import START, cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.expiry import EventExpiry, RequestCleaner, TokenCleaner
from pykubelet.apiserver.security.bootstrap_tokens import token_secret

REQUESTS = ("certificates.k8s.io", "certificatesigningrequests")


@virtual_time
async def test_old_requests_and_bootstrap_tokens_go() -> None:
    async with cluster() as c:
        await c.add("certificates.k8s.io", "certificatesigningrequests", {"metadata": {"name": "open"}})
        await c.add("", "secrets", token_secret("abcdef.0123456789abcdef", START))
        c.clock.pass_(3600)
        await TokenCleaner(c).sync()
        await RequestCleaner(c).sync()
        assert await c.get("secrets", "bootstrap-token-abcdef", "kube-system") is None
        assert await c.get("certificatesigningrequests", "open", group="certificates.k8s.io") is not None

        c.clock.pass_(24 * 3600)
        await RequestCleaner(c).sync()
        assert await c.get("certificatesigningrequests", "open", group="certificates.k8s.io") is None


@virtual_time
async def test_old_events_are_forgotten_counted_from_when_they_were_last_told() -> None:
    about = {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "R"}
    async with cluster() as c:
        await c.add("", "events", {"metadata": {"name": "old", "namespace": "default"}, **about})
        recent = {**about, "lastTimestamp": "2026-01-02T04:00:00Z"}
        await c.add("", "events", {"metadata": {"name": "recent", "namespace": "default"}, **recent})
        c.clock.pass_(3599)
        await EventExpiry(c).sync()
        assert len(await c.all(("", "events"))) == 2

        c.clock.pass_(2)
        await EventExpiry(c).sync()
        assert [each["metadata"]["name"] for each in await c.all(("", "events"))] == ["recent"]


@virtual_time
async def test_one_that_is_replaced_or_vanishes_in_between_stops_nothing() -> None:
    async with cluster() as c:
        one, two, _ = [await c.add(*REQUESTS, {"metadata": {"name": name}}) for name in "abc"]

        async def replaced() -> None:
            await c.remove(REQUESTS, two)
            await c.add(*REQUESTS, {"metadata": {"name": "b", "uid": "another"}})

        c.store.before_write("certificatesigningrequests/a", lambda: c.remove(REQUESTS, one))
        c.store.before_write("certificatesigningrequests/b", replaced)
        c.clock.pass_(24 * 3600)
        await RequestCleaner(c).sync()
        assert [each["metadata"]["uid"] for each in await c.all(REQUESTS)] == ["another"]


@virtual_time
async def test_they_go_once_the_store_is_back() -> None:
    async with cluster() as c:
        await c.add(*REQUESTS, {"metadata": {"name": "old"}})
        c.clock.pass_(24 * 3600)
        c.store.is_away = True
        async with running(RequestCleaner(c), supervised=True):
            await asyncio.sleep(90)
            c.store.is_away = False
            await asyncio.sleep(120)

        assert await c.all(REQUESTS) == []
