"""Secrets in the manifest folder: for the static pods beside them, and for nobody else. And how such pods are
restarted."""

from pathlib import Path
from typing import Final

from kit.agent_process import Node, ask
from kit.waiting import wait_for

HIDDEN: Final = "tr0ub4dor"
SECRET: Final = "apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{password: {value}}}\n"
CONFIG_MAP: Final = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{colour: {value}}}\n"
POD: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: this-machine
    command: [sh, -c, 'while :; do echo "$PASSWORD $(cat /settings/colour) $(cat /keys/password)"; sleep 0.2; done']
    env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: s, key: password}}}]
    volumeMounts: [{name: settings, mountPath: /settings}, {name: keys, mountPath: /keys}]
  volumes:
  - {name: settings, configMap: {name: m}}
  - {name: keys, secret: {secretName: s}}
"""


def write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)


def last_line(node: Node) -> str:
    logs = sorted((node.state / "logs").glob("*/c/*.log"))
    lines = logs[-1].read_text().splitlines() if logs else []
    return lines[-1].split(" ", 3)[3] if lines else ""


def test_static_pods_have_what_lies_beside_them_and_nobody_else_sees_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    write_private(
        node.manifests / "objects.yaml", SECRET.format(value=HIDDEN) + "---\n" + CONFIG_MAP.format(value="red")
    )
    (node.manifests / "web.yaml").write_text(POD)
    with node.agent("--stop-pods-on-exit", "--v=6") as agent:
        wait_for(lambda: last_line(node) == f"{HIDDEN} red {HIDDEN}")
        wait_for(node.containers)  # which are told a little after they are there
        before = node.containers()
        write_private(
            node.manifests / "objects.yaml", SECRET.format(value="new") + "---\n" + CONFIG_MAP.format(value="blue")
        )
        wait_for(lambda: last_line(node) == f"{HIDDEN} blue new")  # files follow, an environment does not
        assert node.containers() == before
        uid = node.pods()["web"]["metadata"]["uid"]
        said = [str(node.pods()), str(ask(node.state / "pykubelet.sock", f"journal {uid}", [])), node.log.read_text()]
        agent.stop()
    assert not [text for text in said if HIDDEN in text]


def test_a_manifest_that_is_put_back_at_once_restarts_its_pod(tmp_path: Path) -> None:
    node = Node(tmp_path)
    manifest = node.manifests / "web.yaml"
    plain = POD.partition("    env:")[0]
    manifest.write_text(plain)
    with node.agent("--stop-pods-on-exit") as agent:
        wait_for(lambda: node.containers().get("web", ("", -1))[1] == 0)
        first = node.containers()["web"][0]
        manifest.rename(tmp_path / "outside.yaml")
        (tmp_path / "outside.yaml").rename(manifest)
        wait_for(lambda: node.containers().get("web", ("", -1))[1] == 1)
        assert node.containers()["web"][0] != first
        agent.stop()
