"""kubectl about rights, in a cluster that `pykubelet up` has made: who may what, who gives what to whom, and what a
program in a pod may with the account that it has."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.up_cluster import UpCluster, cluster_up, pod
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(120)

GROUP = "rbac.authorization.k8s.io"
ASKS = """
import json, os, ssl, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
token = open(folder + "token").read()
trusted = ssl.create_default_context(cafile=folder + "ca.crt")
host = "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
for path in ("pods", "secrets"):
    asked = urllib.request.Request(host + "/api/v1/namespaces/default/" + path)
    asked.add_header("Authorization", "Bearer " + token)
    try:
        print(path, urllib.request.urlopen(asked, context=trusted).status, flush=True)
    except urllib.error.HTTPError as error:
        print(path, error.code, json.load(error)["message"], flush=True)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with cluster_up() as running:
        yield running


def may(cluster: UpCluster, *args: str) -> str:
    return cluster.try_kubectl("auth", "can-i", *args).strip()


def test_rights_are_given_with_kubectl_and_asked_for(cluster: UpCluster) -> None:
    bob = ("--as", "bob")
    assert may(cluster, "list", "pods", *bob) == "no"
    cluster.kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods,pods/log")
    cluster.kubectl("create", "rolebinding", "bob-reads", "--role=reader", "--user=bob")
    wait_for(lambda: may(cluster, "list", "pods", *bob) == "yes")
    assert may(cluster, "get", "pods", "--subresource=log", *bob) == "yes"
    assert may(cluster, "get", "pods", "--subresource=exec", *bob) == "no"
    assert may(cluster, "list", "pods", "-n", "kube-system", *bob) == "no"
    assert may(cluster, "list", "pods", "--all-namespaces", *bob) == "no"
    listed = cluster.kubectl("auth", "can-i", "--list", *bob)
    assert "pods/log" in listed
    assert "[get list]" in listed
    assert "selfsubjectaccessreviews.authorization.k8s.io" in listed
    assert "Forbidden" in cluster.kubectl("get", "nodes", *bob, code=1)
    cluster.kubectl("get", "pods", *bob)
    cluster.kubectl("delete", "rolebinding", "bob-reads")
    wait_for(lambda: may(cluster, "list", "pods", *bob) == "no")


def test_the_roles_that_everybody_knows_are_there(cluster: UpCluster) -> None:
    cluster.kubectl("create", "clusterrolebinding", "ann-views", "--clusterrole=view", "--group=viewers")
    ann = ("--as", "ann", "--as-group", "viewers")
    wait_for(lambda: may(cluster, "list", "configmaps", "-A", *ann) == "yes")
    assert may(cluster, "list", "secrets", "-A", *ann) == "no"
    assert may(cluster, "create", "pods", *ann) == "no"
    assert "cluster-admin" in cluster.kubectl("get", "clusterroles", "-o", "name")
    shown = cluster.kubectl("describe", "clusterrole", "system:discovery")
    assert "[/api/*]" in shown


def test_nobody_gives_what_he_does_not_have(cluster: UpCluster) -> None:
    cluster.kubectl(
        "create", "role", "writer-of-rights", "--verb=create,get", f"--resource=roles.{GROUP},rolebindings.{GROUP}"
    )
    cluster.kubectl("create", "rolebinding", "eve-writes", "--role=writer-of-rights", "--user=eve")
    eve = ("--as", "eve")
    wait_for(lambda: may(cluster, "create", "roles", *eve) == "yes")
    refused = cluster.kubectl("create", "role", "more", "--verb=get", "--resource=secrets", *eve, code=1)
    assert "is attempting to grant RBAC permissions not currently held" in refused
    assert '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}' in refused


def test_reconcile_adds_what_is_missing(cluster: UpCluster) -> None:
    rules: list[dict[str, Any]] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    role = {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": {"name": "kept", "namespace": "default"}}
    assert "reconciled" in cluster.kubectl("auth", "reconcile", "-f", "-", stdin=json.dumps({**role, "rules": rules}))
    more = [*rules, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    text = cluster.kubectl("auth", "reconcile", "-f", "-", stdin=json.dumps({**role, "rules": more}))
    assert "missing rules added" in text
    assert len(cluster.json("get", "role", "kept")["rules"]) == 2


def test_a_program_in_a_pod_may_what_its_account_was_given(cluster: UpCluster) -> None:
    cluster.kubectl("create", "serviceaccount", "robot")
    cluster.kubectl("create", "role", "robots", "--verb=list", "--resource=pods")
    cluster.kubectl("create", "rolebinding", "robots", "--role=robots", "--serviceaccount=default:robot")
    here = sys.base_prefix
    container = {
        "command": [f"{here}/bin/python3", "-c", ASKS],
        "volumeMounts": [{"name": "python", "mountPath": here, "readOnly": True}],
    }
    spec: dict[str, Any] = {"serviceAccountName": "robot", "restartPolicy": "Never"}
    spec["volumes"] = [{"name": "python", "hostPath": {"path": here}}]
    cluster.apply(pod("asking", container=container, **spec))
    cluster.phase("asking", "Succeeded")
    said = cluster.kubectl("logs", "asking").splitlines()
    assert said[0] == "pods 200"
    assert said[1].startswith(
        'secrets 403 secrets is forbidden: User "system:serviceaccount:default:robot" cannot list'
    )


# --- who has a word in what is written


def test_the_policy_of_the_documentation_refuses_what_it_says(cluster: UpCluster) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "admission.md").read_text()
    cluster.kubectl("apply", "-f", "-", stdin=text.partition("```yaml\n")[2].partition("```")[0])
    many = ("create", "deployment", "many", "--image=busybox:1.36", "--replicas=6", "--dry-run=server")
    wait_for(lambda: "five at most, not 6" in cluster.try_kubectl(*many))
    few = ("create", "deployment", "few", "--image=busybox:1.36", "--replicas=5", "--dry-run=server")
    assert "created (server dry run)" in cluster.kubectl(*few)
    cluster.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "--all")
    wait_for(lambda: "created (server dry run)" in cluster.try_kubectl(*many))


def test_a_level_is_tried_out_and_then_kept(cluster: UpCluster) -> None:
    cluster.kubectl("create", "namespace", "team")
    shares = pod("shares", namespace="team", hostNetwork=True)
    cluster.apply(shares)
    label = ("label", "namespace", "team", "pod-security.kubernetes.io/enforce=baseline")
    said = cluster.kubectl(*label, "--dry-run=server")
    assert 'existing pods in namespace "team" violate the new PodSecurity enforce level "baseline:latest"' in said
    assert "shares: host namespaces" in said
    cluster.kubectl(*label)
    shares["metadata"]["name"] = "late"
    wait_for(
        lambda: "violates PodSecurity" in cluster.try_kubectl("run", "-n", "team", "x", "--image=i", "--privileged")
    )
    assert 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)' in cluster.apply(shares, code=1)
    cluster.apply(pod("plain", namespace="team"))
