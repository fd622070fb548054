"""What is there from the start."""

from kit.api_process import Api

NS = "/api/v1/namespaces/default"


async def test_the_cluster_has_what_it_needs_from_the_start(api: Api) -> None:
    _, namespaces = await api.ask("GET", "/api/v1/namespaces")
    names = [each["metadata"]["name"] for each in namespaces["items"]]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    _, service = await api.ask("GET", f"{NS}/services/kubernetes")
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    _, classes = await api.ask("GET", "/apis/scheduling.k8s.io/v1/priorityclasses")
    assert [each["value"] for each in classes["items"]] == [2000000000, 2000001000]
