from kit.kubelet_server import client
from pykubelet.server.endpoints import healthz


async def test_health_is_told_as_a_whole_and_check_by_check() -> None:
    late = [0.0]
    async with client(healthz.routes(healthz.checks(lambda: late[0]))) as server:
        assert await server.get("/healthz") == (200, "ok")
        async with server.session.head("/healthz") as answer:  # as load balancers like to ask
            assert (answer.status, await answer.text()) == (200, "")
        assert await server.get("/healthz/syncloop") == (200, "ok")
        assert await server.get("/healthz/nothing") == (404, "404 page not found\n")
        assert await server.get("/healthz?verbose") == (
            200,
            "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n",
        )
        late[0] = 130.0
        status, text = await server.get("/healthz")
        assert status == 500
        assert "[-]syncloop failed: sync Loop took longer than expected: 130 s\n" in text
        assert (await server.get("/healthz/ping"))[0] == 200
        assert (await server.get("/healthz/syncloop"))[0] == 500
        assert await server.get("/healthz?exclude=syncloop") == (200, "ok")
