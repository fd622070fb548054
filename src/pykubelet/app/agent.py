"""What the agent proper, `node/`, needs of all the other rooms."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from msgspec import Struct

from pykubelet.api.rules.pod_kinds import API_SOURCE, FILE_SOURCE, URL_SOURCE
from pykubelet.api.rules.resources import CPU, MEMORY
from pykubelet.api.struct import changed
from pykubelet.app.foundations import Foundations
from pykubelet.app.machine import MachineParts
from pykubelet.app.pinning import pinning_parts
from pykubelet.app.plugins import PluginParts, plugin_parts
from pykubelet.app.stats import pods_group
from pykubelet.base.tasks import Work
from pykubelet.config.agent import Config
from pykubelet.host.allocation_files import AllocationFiles
from pykubelet.host.cgroups.groups import KernelPodCgroups
from pykubelet.host.credential_providers import load_credential_providers
from pykubelet.host.iptables import keep_chains
from pykubelet.host.memory_notice import memory_notice
from pykubelet.host.oom_kills import watch_oom_kills
from pykubelet.host.prepare import keep_processes_sorted
from pykubelet.host.shutdown_state import ShutdownState
from pykubelet.host.stats import StatsReader
from pykubelet.host.volumes.made_folders import MadeFolders
from pykubelet.node.dependencies import Dependencies, NodeInfo, ShutdownParts
from pykubelet.node.eviction import EvictionParts
from pykubelet.node.image_gc import ImageGc, Look
from pykubelet.node.log_rotation import LogRotation, RotationSettings
from pykubelet.node.node_allocatable import enforce_node_allocatable
from pykubelet.node.node_status import NodeReporter
from pykubelet.node.ownership import Ownership, OwnPods
from pykubelet.node.pinning import PinningParts
from pykubelet.node.pleg import Pleg
from pykubelet.node.pod_cidr import tell_pod_cidr
from pykubelet.node.volume_removals import VolumeRemovals
from pykubelet.pod.eviction.thresholds import Pressure
from pykubelet.pod.ports.api import Keyring, PodObjects
from pykubelet.pod.ports.runtime import Capabilities
from pykubelet.pod.ports.syncer import PodSource
from pykubelet.pod.resize.feasibility import ResizeRules
from pykubelet.pod.status.pod_status import NodeFacts
from pykubelet.sources.files import FileSource
from pykubelet.sources.static_objects import StaticObjects


class AgentParts(Struct, frozen=True, kw_only=True):
    """Made before the runtime has answered: whatever is wrong with them keeps the agent from starting."""

    reporter: NodeReporter
    plugins: PluginParts
    sources: Mapping[str, PodSource]
    allocations: AllocationFiles
    image_gc: ImageGc
    keyring: Keyring | None
    pinning: PinningParts
    objects: PodObjects | None
    """What pods use besides themselves."""
    pod_addresses: dict[str, tuple[str, ...]] = {}
    """Those that pods here were given, by uid."""


def agent_parts(
    base: Foundations, troubles: Callable[[], Iterable[str]], pressures: Callable[[], Collection[Pressure]]
) -> AgentParts:
    """`troubles` are what keeps the node from being ready, `pressures` what it is short of. Raises Invalid."""
    config, plugins = base.config, base.config.credential_providers
    plugins_of_node = plugin_parts(base, lambda: reporter.changed(), lambda: reporter.ownership.is_ours)
    reporter = _reporter(base, troubles, pressures, plugins_of_node)
    objects = base.api.objects if base.api else None
    static = StaticObjects(objects) if config.static_pods.path else None
    return AgentParts(
        reporter=reporter,
        plugins=plugins_of_node,
        sources=_sources(base, reporter.ownership, static),
        objects=static or objects,
        allocations=AllocationFiles(config.root_dir),
        pinning=pinning_parts(base),
        image_gc=ImageGc(base.runtime, base.recorder, config.image_gc, journal=base.journal),
        keyring=load_credential_providers(plugins.config, plugins.bin_dir) if plugins.config else None,
    )


def dependencies(
    base: Foundations, parts: AgentParts, local: MachineParts, *, runtime_name: str, stats: StatsReader | None
) -> Dependencies:
    api, config, reporter = base.api, base.config, parts.reporter
    facts = NodeFacts(host_ips=base.facts.ips, runtime_name=runtime_name)

    def node_info() -> NodeInfo:
        return NodeInfo(
            facts=facts,
            allocatable=reporter.node.status.allocatable if reporter.node else {},
            memory=base.facts.memory,
            swap=base.facts.swap if config.machine.limited_swap else 0,
            log_root=str(config.pod_logs_dir),
            dns=local.dns.settings(),
            api_server=api.place if api and not base.runtime.capabilities.own_network else None,
        )

    return Dependencies(
        sources=parts.sources,
        runtime=base.runtime,
        host=local.host,
        cgroups=local.cgroups,
        pinning=parts.pinning,
        logs=local.logs,
        addressed=parts.pod_addresses.__setitem__,
        image_used=parts.image_gc.keep,
        recorder=base.recorder,
        journal=base.journal,
        stats=stats if config.node.local_storage and config.volume_stats_period >= 0 else None,
        eviction=_eviction(base, parts, stats) if stats is not None else None,
        node=lambda: parts.plugins.devices.admitting(reporter.node),
        devices=parts.plugins.devices,
        claims=parts.plugins.claims,
        device_health=parts.plugins.health,
        node_info=node_info,
        api=api.pods if api else None,
        objects=parts.objects,
        classes=api.classes if api else None,
        keyring=parts.keyring,
        image_pulls=config.image_pulls,
        restart_waits=config.restart_waits,
        features=config.features,
        resync_period=config.resync_period,
        api_node=(lambda: api.view.node if reporter.ownership.is_ours else None) if api else (lambda: None),
        shutdown=_shutdown(base, reporter),
        checkpoint=base.checkpoints.pods if base.checkpoints else None,
        restored=base.checkpoints.restored if base.checkpoints and not config.remove_pods else (),
        memory_use=stats.memory_use if stats else None,
        allocations=parts.allocations,
        resize_rules=resize_rules(config, local.update_refusal),
        allowed_unsafe_sysctls=config.allowed_unsafe_sysctls,
        refuse_unenforced=config.refuse_unenforced,
        has_app_armor=base.facts.has_app_armor,
    )


def _eviction(base: Foundations, parts: AgentParts, stats: StatsReader) -> EvictionParts:
    images = parts.image_gc.remove_unused if base.runtime.capabilities.keeps_images else None
    settings, group = base.config.eviction, pods_group(base.config.cgroups)
    return EvictionParts(
        settings=settings,
        stats=stats,
        recorder=base.recorder,
        remove_images=images,
        notice=partial(memory_notice, group) if settings.kernel_notice else lambda: None,
    )


def _shutdown(base: Foundations, reporter: NodeReporter) -> ShutdownParts | None:
    config = base.config
    if not config.shutdown_periods or config.remove_pods:
        return None
    from pykubelet.host.logind import Logind  # few machines are asked to wait

    return ShutdownParts(
        periods=config.shutdown_periods,
        notice=None if config.shutdown_on_term else Logind(),
        times=ShutdownState(config.root_dir),
        recorder=base.recorder,
        changed=reporter.changed,
    )


def chores(
    base: Foundations, parts: AgentParts, local: MachineParts, pleg: Pleg, look: Look, logs: LogRotation
) -> dict[str, Work]:
    """What has to be done now and then, by name: as much of it as the runtime leaves to others."""
    can = base.runtime.capabilities
    found: dict[str, Work] = {
        "allocations": parts.allocations.run,
        **parts.plugins.works,
        "kills for want of memory": partial(watch_oom_kills, partial(base.recorder.node_event, "Warning", "SystemOOM")),
        "logs": partial(logs.run, lambda: pleg.seen.values()),
    }
    if isinstance(local.cgroups, KernelPodCgroups):
        bound = partial(enforce_node_allocatable, local.cgroups, local.cgroups.shown, base.recorder)
        found["bound on all pods"] = bound
    if base.config.machine.own_group or base.config.machine.system_group:
        found["groups of processes"] = partial(keep_processes_sorted, base.config.machine)
    if base.checkpoints is not None:
        found["checkpoint"] = base.checkpoints.run
    found |= {f"chains of {program}": partial(keep_chains, program) for program in local.iptables}
    if can.set_pod_cidr is not None:
        api, configured = base.api, base.config.pod_cidr
        node = (lambda: api.view.node or parts.reporter.node) if api else (lambda: None)
        found["pod addresses"] = partial(tell_pod_cidr, can.set_pod_cidr, node, configured)
    if (server := base.api) is not None:
        folders, owner = MadeFolders(str(base.config.root_dir)), parts.reporter.ownership
        removals = VolumeRemovals(server.nodes, lambda: server.view.node if owner.is_ours else None, folders)
        found["folders of volumes that went"] = removals.run
    if can.keeps_images:
        found["image gc"] = partial(parts.image_gc.run, look)
    return found


def resize_rules(config: Config, update_refusal: str) -> ResizeRules:
    """`update_refusal` says why the runtime cannot change running containers, if it cannot."""
    gates, wanted = config.feature_gates, config.configuration
    exclusive = {
        CPU: wanted.get("cpuManagerPolicy") == "static" and not gates["InPlacePodVerticalScalingExclusiveCPUs"],
        MEMORY: wanted.get("memoryManagerPolicy") == "Static" and not gates["InPlacePodVerticalScalingExclusiveMemory"],
    }
    return ResizeRules(
        enabled=gates["InPlacePodVerticalScaling"],
        refusal=update_refusal,
        pinned=tuple(name for name, is_exclusive in exclusive.items() if is_exclusive),
        limited_swap=config.machine.limited_swap,
    )


def rotation(settings: RotationSettings, can: Capabilities) -> RotationSettings:
    """What is left to do of what people want. Old logs are cleared away in any case."""
    return settings if can.reopens_logs else changed(settings, max_size=-1)


def _reporter(
    base: Foundations,
    troubles: Callable[[], Iterable[str]],
    pressures: Callable[[], Collection[Pressure]],
    plugins: PluginParts,
) -> NodeReporter:
    api, settings, in_use = base.api, base.config.node, plugins.volumes_in_use
    return NodeReporter(
        api.nodes if api else None,
        settings,
        facts=base.machine.facts,
        runtime=base.runtime,
        recorder=base.recorder,
        seen=(lambda: api.view.node) if api else (lambda: None),
        troubles=troubles,
        pressures=pressures,
        devices=plugins.devices.counts,
        volumes_in_use=in_use.names if in_use is not None else lambda shown: shown.volumes_in_use,
        lease_renewed=partial(api.leases.renewal_time, settings.name) if api else None,
        journal=base.journal,
        before=base.checkpoints.objects if base.checkpoints else None,
    )


def _sources(base: Foundations, ownership: Ownership, objects: StaticObjects | None) -> dict[str, PodSource]:
    sources: dict[str, PodSource] = {}
    if base.config.remove_pods:
        return sources
    static, name = base.config.static_pods, base.config.node.name
    if static.path:
        sources[FILE_SOURCE] = FileSource(
            static.path,
            name,
            period=static.file_check_period,
            objects=objects,
            lenient=static.lenient,
            validation=static.validation,
        )
    if static.url:
        from pykubelet.sources.url import UrlSource  # an HTTP client takes long to load

        sources[URL_SOURCE] = UrlSource(
            static.url,
            name,
            headers=static.url_header,
            period=static.http_check_period,
            lenient=static.lenient,
            validation=static.validation,
        )
    if base.api is not None:
        sources[API_SOURCE] = OwnPods(base.api.source, ownership)
    return sources
