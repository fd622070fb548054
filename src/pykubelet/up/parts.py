"""What is kept running by a plan: the commands of the API server and of the agent."""

import hashlib
import sys
from typing import Final

from pykubelet.config.apiserver import ApiServerConfig
from pykubelet.runtime.process.abilities import PLAIN, seccomp_refusal
from pykubelet.up.folder import Folder, Plan
from pykubelet.up.supervisor import Part

PROGRAM: Final = (sys.executable, "-P", "-m", "pykubelet")
"""Not from the working folder: in /tmp, anybody could leave a `grp.py` there for root to import."""


def parts(folder: Folder, plan: Plan) -> list[Part]:
    """The API server first, unless it is somewhere else."""
    if plan.made_by == "join":
        return [Part(name="the node", command=_joined_agent(folder, plan), log=str(folder.log("agent")))]
    server = [*PROGRAM, "apiserver", "--data-dir", str(folder.apiserver), "--port", str(plan.api_port)]
    server += ["--bind-address", plan.bind, "--kubeconfig", str(folder.admin_kubeconfig), "--tls-san", plan.address]
    host = f"[{plan.address}]" if ":" in plan.address else plan.address
    server += ["--kubelet-endpoint", f"{plan.node}={host}:{plan.kubelet_port}"]
    server += [f"--controllers={','.join(plan.controllers)}"] if plan.controllers else []
    server += ["--cluster-dns", plan.cluster_dns] if plan.cluster_dns else []
    server += ["--host-path-volumes", str(folder.volumes)]
    pki = folder.apiserver / "pki"
    agent = [*_agent(folder, plan), "--kubeconfig", str(folder.node_kubeconfig)]
    agent += ["--client-ca-file", str(pki / "ca.crt")]
    agent += ["--tls-cert-file", str(pki / f"node-{plan.node}-serving.crt")]
    agent += ["--tls-private-key-file", str(pki / f"node-{plan.node}-serving.key")]
    agent += ["--pod-manifest-path", plan.manifests] if plan.manifests else []
    return [
        Part(name="the API server", command=server, log=str(folder.log("apiserver"))),
        Part(name="the node", command=agent, log=str(folder.log("agent"))),
    ]


def clearing_agent(folder: Folder, plan: Plan) -> list[str]:
    """The command that removes what stopped pods have left, in whichever runtime: it needs no API server."""
    return [*_agent(folder, plan), "--remove-pods", "--enable-server=false"]


def api_config(folder: Folder, plan: Plan) -> ApiServerConfig:
    return ApiServerConfig(
        data=folder.apiserver, address=plan.bind, port=plan.api_port, kubeconfig=folder.admin_kubeconfig
    )


def _joined_agent(folder: Folder, plan: Plan) -> list[str]:
    agent = [*_agent(folder, plan), "--kubeconfig", plan.kubeconfig]
    if folder.client_ca.exists():
        agent += ["--client-ca-file", str(folder.client_ca)]
    if plan.bootstrap:
        agent += ["--bootstrap-kubeconfig", plan.bootstrap, "--rotate-certificates=true"]
    if plan.asks_for_certificate:
        agent += ["--rotate-server-certificates=true"]
    return agent


def _agent(folder: Folder, plan: Plan) -> list[str]:
    """What any agent in a folder of ours is told, whatever API server it has."""
    agent = [*PROGRAM, "run", "--stop-pods-on-exit", "--root-dir", str(folder.state)]
    agent += ["--pod-logs-dir", str(folder.state / "logs")]
    agent += ["--hostname-override", plan.node, "--node-ip", plan.address]
    agent += ["--address", plan.address, "--port", str(plan.kubelet_port), "--healthz-port=0"]
    agent += ["--container-runtime-endpoint", plan.runtime, "--cluster-domain", "cluster.local"]
    agent += ["--refuse-unenforced"] if plan.refuse_unenforced else []
    agent += ["--keep-secrets"] if plan.keep_secrets else []
    agent += ["--proxy-services"] if plan.services else []
    agent += ["--cluster-dns", plan.cluster_dns] if plan.cluster_dns else []
    agent += ["--images", plan.images, "--kernel-memcg-notification", "--feature-gates=ImageVolume=true"]
    if plan.runtime != PLAIN and not seccomp_refusal():
        agent += [
            "--seccomp-default"
        ]  # else root in a pod could make user namespaces, and in those lift its own limits
    # Apart from the pods of any other agent on this machine.
    return [*agent, "--cgroup-root", f"/pykubelet-{hashlib.sha256(str(folder.path).encode()).hexdigest()[:8]}"]
