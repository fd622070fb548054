"""The OpenAPI documents as clients get them."""

import gc
import json
from collections.abc import Mapping

from kit.api_process import Api
from pykubelet.apiserver.schema.resources import Resource
from unit.apiserver.schema.test_kinds import widget

V2 = "/openapi/v2"


async def asked(api: Api, path: str, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    sent.setdefault("Accept-Encoding", "identity")
    async with api.session.get(api.url + path, headers=sent, allow_redirects=False) as answer:
        return answer.status, answer.headers, await answer.read()


async def test_a_document_has_paths_and_comes_compressed_if_that_is_wanted(api: Api) -> None:
    _, plain, body = await asked(api, V2)
    assert "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale" in json.loads(body)["paths"]
    assert "Content-Encoding" not in plain
    code, packed, same = await asked(api, V2, Accept_Encoding="gzip")
    assert (code, packed["Content-Encoding"], same) == (200, "gzip", body)
    assert int(packed["Content-Length"]) < len(body) / 5
    assert packed["ETag"] == plain["ETag"]


async def test_whoever_has_a_document_is_told_that_it_is_the_same(api: Api) -> None:
    for path in (V2, "/openapi/v3/apis/apps/v1"):
        _, headers, _ = await asked(api, path)
        code, _, body = await asked(api, path, If_None_Match=headers["ETag"])
        assert (code, body) == (304, b"")
    tag = (await asked(api, V2))[1]["ETag"]
    api.backend.serve([widget()])
    code, _, body = await asked(api, V2, If_None_Match=tag)
    assert (code, "com.example.v1.Widget" in json.loads(body)["definitions"]) == (200, True)


async def test_documents_of_kinds_that_are_gone_are_not_kept(api: Api) -> None:
    kind = widget().kind
    for _ in range(3):
        made = widget()
        api.backend.serve([made])
        assert (await asked(api, f"/openapi/v3/apis/{made.api_version}"))[0] == 200
        api.backend.withdraw(made.group, made.plural)
        del made
    assert (await asked(api, "/openapi/v3/apis/apps/v1"))[0] == 200
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, Resource) and each.kind == kind]


async def test_the_address_of_a_document_names_its_state(api: Api) -> None:
    index = json.loads((await asked(api, "/openapi/v3"))[2])["paths"]
    address = index["apis/apps/v1"]["serverRelativeURL"]
    code, headers, _ = await asked(api, address)
    assert (code, headers["Cache-Control"]) == (200, "public, immutable")
    code, headers, _ = await asked(api, "/openapi/v3/apis/apps/v1?hash=OLD")
    assert (code, headers["Location"]) == (301, address)


async def test_discovery_is_told_once(api: Api) -> None:
    form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    _, headers, _ = await asked(api, "/apis", Accept=form)
    assert (await asked(api, "/apis", Accept=form, If_None_Match=headers["ETag"]))[0] == 304
    api.backend.serve([widget()])
    assert (await asked(api, "/apis", Accept=form, If_None_Match=headers["ETag"]))[0] == 200


async def test_a_kind_that_is_on_its_way_out_says_so(api: Api) -> None:
    _, headers, _ = await asked(api, "/api/v1/namespaces/default/endpoints")
    assert headers["Warning"].startswith('299 - "v1 Endpoints is deprecated in v1.33+')
    assert "Warning" not in (await asked(api, "/api/v1/namespaces/default/configmaps"))[1]
