from kit.kubelet_server import Inside, client
from kit.pods import make_pod
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.server.endpoints import pods


async def test_pods_that_should_run_and_pods_that_do() -> None:
    async def observe() -> tuple[ObservedPod, ...]:
        running = ObservedContainer(id="1", name="c", image="busybox", state=State.RUNNING)
        ended = ObservedContainer(id="2", name="init", state=State.EXITED)
        sandbox = ObservedSandbox(id="s", ready=True)
        return (
            ObservedPod(uid="u1", name="web", namespace="default", sandboxes=(sandbox,), containers=(running, ended)),
            ObservedPod(uid="u2", name="gone", namespace="default", containers=(ended,)),
        )

    async with client(pods.routes(Inside(make_pod("web")), observe)) as server:
        async with server.session.get("/pods") as answer:
            found = await answer.json()
        assert (found["kind"], found["items"][0]["metadata"]["name"]) == ("PodList", "web")
        async with server.session.get("/runningpods/") as answer:
            running = (await answer.json())["items"]
        assert [(pod["metadata"]["name"], [c["name"] for c in pod["spec"]["containers"]]) for pod in running] == [
            ("web", ["c"])
        ]
