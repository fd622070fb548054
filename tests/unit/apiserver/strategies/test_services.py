"""Services and their addresses."""

from typing import Any

from kit.api_process import Api

NS = "/api/v1/namespaces/default"
MERGE = "application/merge-patch+json"


def causes(refused: Any) -> list[tuple[str, str]]:
    return [(each["reason"], each["field"]) for each in refused["details"]["causes"]]


async def test_services_never_share_an_address_and_give_it_back(api: Api) -> None:
    def service(name: str, **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}

    _, one = await api.ask("POST", f"{NS}/services", service("a"))
    address = one["spec"]["clusterIP"]
    assert address.startswith("10.96.")
    code, refused = await api.ask("POST", f"{NS}/services", service("b", clusterIP=address))
    assert (code, causes(refused)) == (422, [("FieldValueInvalid", "spec.clusterIPs")])
    code, refused = await api.ask("PATCH", f"{NS}/services/a", {"spec": {"clusterIP": "10.96.9.9"}}, kind=MERGE)
    assert code == 422
    await api.ask("DELETE", f"{NS}/services/a")
    assert (await api.ask("POST", f"{NS}/services", service("b", clusterIP=address)))[0] == 201
    _, headless = await api.ask("POST", f"{NS}/services", service("c", clusterIP="None"))
    assert headless["spec"]["clusterIPs"] == ["None"]
    _, outer = await api.ask("POST", f"{NS}/services", service("d", type="NodePort"))
    assert 30000 <= outer["spec"]["ports"][0]["nodePort"] < 32768


async def test_a_dry_run_of_a_service_takes_no_address(api: Api) -> None:
    given = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    _, shown = await api.ask("POST", f"{NS}/services?dryRun=All", given)
    address = shown["spec"]["clusterIP"]
    given["spec"]["clusterIP"] = address  # type: ignore[index]
    assert (await api.ask("POST", f"{NS}/services", given))[0] == 201


async def test_a_service_may_become_a_mere_name_and_back(api: Api) -> None:
    given = {"metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "example.com"}}
    _, name = await api.ask("POST", f"{NS}/services", given)
    assert "clusterIP" not in name["spec"]
    back = {"spec": {"type": "ClusterIP", "externalName": None, "ports": [{"port": 80}]}}
    _, address = await api.ask("PATCH", f"{NS}/services/a", back, kind=MERGE)
    assert address["spec"]["clusterIP"].startswith("10.96.")
    again = {"spec": {"type": "ExternalName", "externalName": "example.com"}}
    _, name = await api.ask("PATCH", f"{NS}/services/a", again, kind=MERGE)
    assert "clusterIP" not in name["spec"]


async def test_a_mere_name_cannot_give_back_the_address_of_another_service(api: Api) -> None:
    spec = {"ports": [{"port": 80}]}
    _, one = await api.ask("POST", f"{NS}/services", {"metadata": {"name": "a"}, "spec": spec})
    address = one["spec"]["clusterIP"]
    name = {"type": "ExternalName", "externalName": "example.com", "clusterIP": address}
    for query in ("?dryRun=All", ""):
        code, refused = await api.ask("POST", f"{NS}/services{query}", {"metadata": {"name": "b"}, "spec": name})
        assert (code, causes(refused)) == (422, [("FieldValueForbidden", "spec.clusterIPs")])
    taken = {"metadata": {"name": "c"}, "spec": {**spec, "clusterIP": address}}
    assert (await api.ask("POST", f"{NS}/services", taken))[0] == 422
