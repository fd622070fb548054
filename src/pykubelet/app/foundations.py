"""What everything else stands on, made first: the agent's folders, this machine, the journal, the way to the API
server, the runtime. All of it is there before the runtime has answered."""

import fcntl
import os
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.config.agent import Config
from pykubelet.config.values import cpu_set
from pykubelet.host.checkpoint import Checkpoints, load_checkpoints
from pykubelet.host.journal_files import JournalFiles
from pykubelet.host.machine import LocalMachine
from pykubelet.host.prepare import prepare_machine
from pykubelet.host.threads import in_thread
from pykubelet.node.journal_log import log_moment
from pykubelet.node.log_recorder import LogRecorder
from pykubelet.node.node_trouble import NodeTroubles
from pykubelet.pod.journal_rule import rule
from pykubelet.pod.moments import Journal
from pykubelet.pod.node.allocatable import kept_free, over_reserved
from pykubelet.pod.node.node_object import node_capacity
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.pod.ports.runtime import Runtime
from pykubelet.runtime.endpoints import make_runtime

if TYPE_CHECKING:
    from pykubelet.app.api_client import ApiParts
    from pykubelet.kube.events import EventRecorder


class Foundations(Struct, frozen=True, kw_only=True):
    config: Config
    machine: LocalMachine
    facts: MachineFacts
    journal: Journal
    journal_files: JournalFiles
    troubles: NodeTroubles
    api: "ApiParts | None"
    recorder: "EventRecorder | LogRecorder"
    runtime: Runtime
    checkpoints: Checkpoints | None
    """What is remembered of an API server."""


async def lay_foundations(config: Config, stack: AsyncExitStack) -> Foundations:
    """Until the stack is unwound. Raises Invalid when the agent cannot start as configured."""
    _check_sources(config)
    await in_thread(prepare_machine, config.machine)
    _make_folders(config)
    stack.callback(_only_agent_here(config.root_dir).close)
    machine = LocalMachine(str(config.root_dir), hostname=config.node.name, node_ips=config.node_ips)
    facts = await machine.facts()
    check_reserved(config, facts)
    journal, api, checkpoints = Journal(rule), None, None
    journal_files, troubles = JournalFiles(config.root_dir / "journal", rule), NodeTroubles()
    for reader in (log_moment, journal_files.read, troubles.read):
        journal.read_by(reader)
    stack.push_async_callback(journal_files.flush)
    if config.client.kubeconfig:
        from pykubelet.app.api_client import connect  # an HTTP client takes long to load

        machine_name = f"{facts.machine_id} {facts.system_uuid}"
        folder, secrets = config.root_dir / "checkpoints", config.keep_secrets
        checkpoints = await in_thread(partial(load_checkpoints, folder, machine=machine_name, secrets=secrets))
        api = await connect(config, journal, stack, checkpoints.objects)
    runtime = make_runtime(changed(config.runtime, node_ips=facts.ips, journal=journal))
    stack.push_async_callback(runtime.close)
    recorder = api.recorder if api else LogRecorder(config.node.name, journal=journal)
    return Foundations(
        config=config,
        machine=machine,
        facts=facts,
        journal=journal,
        journal_files=journal_files,
        troubles=troubles,
        api=api,
        recorder=recorder,
        runtime=runtime,
        checkpoints=checkpoints,
    )


def check_reserved(config: Config, facts: MachineFacts) -> None:
    """A node that keeps back more than it has could take no pod, and would say so only of each of them."""
    wanted, online = config.node.reserved_cpus, cpu_set("online", facts.cpus_online)
    if online and not wanted <= online:
        shown = ",".join(map(str, sorted(wanted)))
        raise Invalid(f"reservedSystemCPUs: {shown} is not a subset of online-cpus: {facts.cpus_online}")
    capacity = node_capacity(facts, config.node)
    wrong = " ".join(over_reserved(capacity, config.node.reserved, kept_free(config.node.thresholds, capacity)))
    if wrong:
        raise Invalid(f"kubeReserved, systemReserved and evictionHard keep back more than this machine has: {wrong}")


def _check_sources(config: Config) -> None:
    """Before anything is made on this machine: whoever has mistyped a path must not find folders of ours there."""
    static, client = config.static_pods, config.client
    if config.remove_pods:
        return
    if not (static.path or static.url or client.kubeconfig):
        raise Invalid("there is nowhere to get pods from: give --pod-manifest-path, --manifest-url or --kubeconfig")
    if static.path and not client.kubeconfig and not os.path.exists(static.path):
        raise Invalid(f"{static.path}: there is no such file or folder of manifests")
    if static.url:
        from pykubelet.sources.url import checked_url  # an HTTP client takes long to load

        checked_url(static.url)
    if client.kubeconfig:
        from pykubelet.kube import kubeconfig

        if not client.bootstrap_kubeconfig:
            kubeconfig.load(client.kubeconfig)
        elif not os.path.exists(client.kubeconfig):
            kubeconfig.load(client.bootstrap_kubeconfig)


def _make_folders(config: Config) -> None:
    for folder in (config.root_dir, config.pod_logs_dir):
        try:
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise Invalid(f"{folder}: cannot be made: {error.strerror}; choose another with --root-dir") from None
        if not os.access(folder, os.W_OK | os.X_OK):
            raise Invalid(f"{folder}: cannot be written; choose another with --root-dir")


def _only_agent_here(root: Path) -> IO[bytes]:
    """Two agents on one state would undo each other's work. The lock goes with the process, however it ends."""
    file = (root / "agent.lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise Invalid(f"another agent is running here: it holds {root}/agent.lock") from None
    file.truncate(0)
    file.write(str(os.getpid()).encode())
    file.flush()
    return file
