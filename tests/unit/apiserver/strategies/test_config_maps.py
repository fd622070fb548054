"""Config maps."""

from kit.api_process import Api

NS = "/api/v1/namespaces/default"
MERGE = "application/merge-patch+json"


async def test_what_is_immutable_stays_as_it_is(api: Api) -> None:
    given = {"metadata": {"name": "c"}, "data": {"a": "b"}, "immutable": True}
    await api.ask("POST", f"{NS}/configmaps", given)
    for change in ({"data": {"a": "c"}}, {"immutable": None}, {"binaryData": {"x": "eA=="}}):
        assert (await api.ask("PATCH", f"{NS}/configmaps/c", change, kind=MERGE))[0] == 422
    labelled = {"metadata": {"labels": {"x": "y"}}}
    assert (await api.ask("PATCH", f"{NS}/configmaps/c", labelled, kind=MERGE))[0] == 200
