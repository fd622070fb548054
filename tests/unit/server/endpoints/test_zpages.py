from datetime import UTC, datetime

from kit.kubelet_server import client
from pykubelet.config.agent import make_config
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.server.endpoints import zpages


async def test_the_configuration_in_force_is_told_with_its_defaults() -> None:
    async def facts() -> MachineFacts:
        return MachineFacts(hostname="n1", ips=("192.0.2.1",), cpus=2, memory=1 << 30, machine_id="m")

    started = datetime(2026, 1, 1, tzinfo=UTC)
    said = zpages.About(
        configuration=make_config({"maxPods": 7}).configuration,
        flags={"max-pods": "7"},
        started=started,
        now=lambda: datetime(2026, 1, 1, 1, 2, 3, tzinfo=UTC),
        facts=facts,
    )
    async with client(zpages.routes(said, lambda: ["/pods", "/configz"])) as server:
        async with server.session.get("/configz") as answer:
            found = (await answer.json())["kubeletconfig"]
        assert (found["maxPods"], found["port"], found["authentication"]["webhook"]["cacheTTL"]) == (7, 10250, "2m0s")
        assert "max-pods=7\n" in (await server.get("/flagz"))[1]
        statusz = (await server.get("/statusz"))[1]
        assert "Up: 1 hr 02 min 03 sec\n" in statusz
        assert "Paths: /configz /pods\n" in statusz
        async with server.session.get("/spec/") as answer:
            assert (await answer.json())["num_cores"] == 2
