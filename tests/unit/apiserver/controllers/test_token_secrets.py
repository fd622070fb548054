"""Secrets that get the token of a service account."""

import asyncio
import base64
from typing import Any

import pytest

from kit.cluster import TestCluster, cluster, tokens
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.token_secrets import NAME, SECRETS, TYPE, UID, TokenSecrets
from pykubelet.base.errors import Invalid


async def secret(c: TestCluster, name: str, **annotations: str) -> Any:
    notes = {NAME: "robot", **annotations}
    metadata = {"name": name, "namespace": "default", "annotations": notes}
    return await c.add(*SECRETS, {"metadata": metadata, "type": TYPE})


@virtual_time
async def test_the_token_in_a_secret_lasts_as_long_as_the_secret() -> None:
    async with cluster() as c:
        issuer = tokens(c)
        await c.add("", "serviceaccounts", {"metadata": {"name": "robot", "namespace": "default"}})
        await secret(c, "lasting")
        controller = TokenSecrets(c, issuer, b"PEM")
        await controller.sync()

        found = await c.get("secrets", "lasting")
        data = {key: base64.b64decode(value).decode() for key, value in found["data"].items()}
        assert (data["ca.crt"], data["namespace"]) == ("PEM", "default")
        assert found["metadata"]["annotations"][UID] == "uid-of-robot"
        c.clock.pass_(20 * 365 * 24 * 3600)
        user, _ = await issuer.verify(data["token"])
        assert user.name == "system:serviceaccount:default:robot"

        await controller.sync()
        assert await c.get("secrets", "lasting") == found
        await c.remove(SECRETS, found)
        await asyncio.sleep(1)
        with pytest.raises(Invalid, match="is gone"):
            await issuer.verify(data["token"])


@virtual_time
async def test_a_secret_for_nobody_goes_and_others_stay() -> None:
    async with cluster() as c:
        await c.add("", "serviceaccounts", {"metadata": {"name": "robot", "namespace": "default"}})
        await secret(c, "of-another", **{UID: "another"})
        await secret(c, "of-nobody", **{NAME: "nobody"})
        await c.add(*SECRETS, {"metadata": {"name": "plain", "namespace": "default"}, "type": "Opaque"})
        await TokenSecrets(c, tokens(c), b"PEM").sync()
        assert [each["metadata"]["name"] for each in await c.all(SECRETS)] == ["plain"]
