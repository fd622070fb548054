"""Jobs that go some time after they have ended."""

import asyncio

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.batch.jobs import JOBS
from pykubelet.apiserver.controllers.batch.ttl import TtlAfterFinished


@virtual_time
async def test_a_job_goes_when_its_time_is_over_and_not_before() -> None:
    ended = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}
    async with cluster() as c:
        for name, spec, status in (
            ("soon", {"ttlSecondsAfterFinished": 60}, ended),
            ("later", {"ttlSecondsAfterFinished": 600}, ended),
            ("stays", {}, ended),
            ("runs", {"ttlSecondsAfterFinished": 0}, {}),
        ):
            await c.add(*JOBS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status})

        async def there() -> list[str]:
            found = await c.all(JOBS)
            return [each["metadata"]["name"] for each in found if "deletionTimestamp" not in each["metadata"]]

        async with running(TtlAfterFinished(c)):
            await asyncio.sleep(1)
            assert await there() == ["later", "runs", "soon", "stays"]
            c.clock.pass_(61)
            await asyncio.sleep(61)
            assert await there() == ["later", "runs", "stays"]
