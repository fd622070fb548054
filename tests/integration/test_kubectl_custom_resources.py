"""The real kubectl with a custom resource, from its definition to its end."""

import json

import pytest

from kit.api_process import Api, done
from kit.kubectl import KUBECTL

pytestmark = [
    pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed"),
    pytest.mark.timeout(180),
]

CRD = r"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, kind: CronTab, shortNames: [ct], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    selectableFields: [{jsonPath: .spec.image}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: When to run what.
            required: [cronSpec]
            x-kubernetes-validations:
            - {rule: self.replicas <= self.most, message: there are too many}
            properties:
              cronSpec: {type: string, description: Five fields., pattern: '^(\S+\s){4}\S+$'}
              image: {type: string}
              replicas: {type: integer, minimum: 1, default: 1}
              most: {type: integer, default: 5}
          status: {type: object, properties: {replicas: {type: integer}}}
"""


def crontab(name: str, image: str, **more: object) -> str:
    spec = {"cronSpec": "* * * * */5", "image": image, **more}
    metadata = {"name": name}
    return json.dumps({"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": metadata, "spec": spec})


async def refused(api: Api, *arguments: str, stdin: str = "") -> str:
    told = await api.kubectl(*arguments, stdin=stdin)
    assert told.code != 0, told.out
    return told.err


async def test_a_custom_resource_lives_like_any_other(api: Api) -> None:
    await done(api, "apply", "-f", "-", stdin=CRD)
    await done(api, "wait", "--for=condition=Established", "crd/crontabs.stable.example.com", "--timeout=20s")

    await done(api, "apply", "-f", "-", stdin=crontab("a", "x"))
    assert 'unknown field "spec.imagge"' in await refused(api, "create", "-f", "-", stdin=crontab("b", "y", imagge=1))
    assert "should be greater than or equal to 1" in await refused(
        api, "create", "-f", "-", stdin=crontab("b", "y", replicas=0)
    )
    header, row = (await done(api, "get", "ct")).splitlines()
    assert (header.split(), row.split()) == (["NAME", "SPEC", "REPLICAS"], ["a", "*", "*", "*", "*", "*/5", "1"])
    assert "crontab.stable.example.com/a" in await done(api, "get", "all")
    assert await done(api, "get", "ct", "-o", "name", "--field-selector=spec.image=y") == ""
    told = await done(api, "explain", "crontab.spec")
    assert "When to run what." in told
    assert "cronSpec\t<string> -required-" in told
    assert "Replicas:   1" in await done(api, "describe", "ct/a")

    await done(api, "scale", "ct/a", "--replicas=4")
    assert "there are too many" in await refused(api, "scale", "ct/a", "--replicas=9")
    await done(api, "apply", "-f", "-", stdin=crontab("a", "z"))
    await done(api, "patch", "ct/a", "--type=merge", "-p", '{"spec":{"most":9}}')
    await done(api, "patch", "ct/a", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":4}}')
    await done(api, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=crontab("a", "w"))
    shown = json.loads(await done(api, "get", "ct/a", "-o", "json"))
    assert shown["spec"] == {"cronSpec": "* * * * */5", "image": "w", "replicas": 4, "most": 9}
    assert shown["status"] == {"replicas": 4}

    await done(api, "delete", "crd", "crontabs.stable.example.com", "--timeout=20s")
    assert "the server doesn't have a resource type" in await refused(api, "get", "ct")
