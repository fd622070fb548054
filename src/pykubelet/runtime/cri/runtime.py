"""The Runtime port over CRI v1."""

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from google.protobuf.message import Message

from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry
from pykubelet.pod.container.labels import CONTAINER_NAME, POD_UID
from pykubelet.pod.moments import Journal, RuntimeCalled
from pykubelet.pod.observed import ObservedPod, ObservedSandbox
from pykubelet.pod.ports.runtime import (
    IMAGE_VOLUME_FAILED,
    Capabilities,
    ContainerConfig,
    ExecResult,
    Image,
    Limits,
    PullCredentials,
    RuntimeHandler,
    RuntimeStatus,
    RuntimeVersion,
    SandboxConfig,
    Storage,
)
from pykubelet.runtime.cri import events
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.convert import (
    Machine,
    container_config,
    found_sandbox_config,
    sandbox_config,
    target_of,
    updated_resources,
)
from pykubelet.runtime.cri.images import Images
from pykubelet.runtime.cri.lost_tasks import end_lost_task
from pykubelet.runtime.cri.observe import SERVICE, Observer
from pykubelet.runtime.cri.shown import image_refusal, shown_cgroup_driver
from pykubelet.runtime.cri.stats import CriPlaces
from pykubelet.runtime.cri.streaming import CriStreams
from pykubelet.web.grpc_channel import DEADLINE, Channel, Lost, Unimplemented

_LONGEST_SECONDS: Final = 2**31
_PATIENCE: Final = 10.0

Reply = TypeVar("Reply", bound=Message)


class CriRuntime:
    """Makes no promise that the runtime itself does not keep but two: see `Observer.abandon` and `_found_after`."""

    def __init__(
        self,
        endpoint: str,
        *,
        image_endpoint: str = "",
        machine: Machine | None = None,
        deadline: float = DEADLINE,
        journal: Journal | None = None,
    ) -> None:
        on_call = None if journal is None else partial(_note, journal)
        self._channel = Channel(endpoint, deadline=deadline, on_call=on_call, journal=journal)
        self._image_channel = self._channel
        if image_endpoint not in ("", endpoint):
            self._image_channel = Channel(image_endpoint, deadline=deadline, on_call=on_call, journal=journal)
        self._knows_cdi = False
        self._no_images: str | None = None
        """Why images cannot be mounted, once that is known; empty: they can."""
        self._deadline = deadline
        self._machine = machine or Machine()
        self._observer = Observer(self._channel, now=partial(datetime.now, UTC))
        self.capabilities = Capabilities(
            streams=CriStreams(self._channel),
            places=CriPlaces(self._channel, self._image_channel),
            cgroup_driver=self._cgroup_driver,
            set_pod_cidr=self._set_pod_cidr,
            reopens_logs=True,
            knows_cdi=lambda: self._knows_cdi,
            keeps_images=True,
            updates_containers=self._no_refusal,
        )
        self._images = Images(self._image_channel, self._channel)

    async def version(self) -> RuntimeVersion:
        try:
            answer = await self._call("Version", cri.VersionRequest(version="0.1.0"), cri.VersionResponse)
        except Unimplemented:
            where = self._channel.endpoint
            raise Invalid(f"the runtime at {where} does not speak CRI v1, as containerd does from 1.6 on") from None
        self._knows_cdi = knows_cdi(answer.runtime_name, answer.runtime_version)
        self._no_images = image_refusal(answer.runtime_name, answer.runtime_version)
        return RuntimeVersion(
            name=answer.runtime_name, version=answer.runtime_version, api_version=answer.runtime_api_version
        )

    async def status(self) -> RuntimeStatus:
        answer = await self._call("Status", cri.StatusRequest(), cri.StatusResponse)
        conditions = {each.type: each for each in answer.status.conditions}
        machine, network = (conditions.get(kind, cri.RuntimeCondition()) for kind in ("RuntimeReady", "NetworkReady"))
        return RuntimeStatus(
            ready=machine.status,
            network_ready=network.status,
            message="" if machine.status else _reason(machine),
            network_message="" if network.status else _reason(network),
            handlers=tuple(_handler(each) for each in answer.runtime_handlers),
            supplemental_groups_policy=(
                answer.features.supplemental_groups_policy if answer.HasField("features") else None
            ),
        )

    async def _set_pod_cidr(self, cidr: str) -> None:
        config = cri.RuntimeConfig(network_config=cri.NetworkConfig(pod_cidr=cidr))
        request = cri.UpdateRuntimeConfigRequest(runtime_config=config)
        await self._call("UpdateRuntimeConfig", request, cri.UpdateRuntimeConfigResponse)

    async def _no_refusal(self) -> str:
        return ""

    async def _cgroup_driver(self) -> str:
        """Newer runtimes say it; of older ones containerd shows its configuration."""
        try:
            answer = await self._call("RuntimeConfig", cri.RuntimeConfigRequest(), cri.RuntimeConfigResponse)
        except Unimplemented:
            status = await self._call("Status", cri.StatusRequest(verbose=True), cri.StatusResponse)
            return shown_cgroup_driver(status.info)
        return {cri.SYSTEMD: "systemd", cri.CGROUPFS: "cgroupfs"}.get(answer.linux.cgroup_driver, "")

    # --- looking

    async def pods(self) -> tuple[ObservedPod, ...]:
        return await self._observer.pods()

    async def observe(self, uid: str) -> ObservedPod:
        return await self._observer.pod(uid)

    def changes(self) -> AsyncGenerator[str, None]:
        return events.changes(self._channel, self._observer)

    # --- sandboxes

    async def run_sandbox(self, config: SandboxConfig) -> ObservedSandbox:
        wanted = sandbox_config(config, self._machine.kernel)
        if config.id_mappings:
            await self._check_user_namespaces(config.runtime_handler)
        request = cri.RunPodSandboxRequest(config=wanted, runtime_handler=config.runtime_handler)
        await _make_folder(config.log_directory)
        longer = 2 * self._deadline  # its network may take its time
        answer = await self._whole("RunPodSandbox", request, cri.RunPodSandboxResponse, deadline=longer)
        return await self._observer.sandbox(answer.pod_sandbox_id)

    async def stop_sandbox(self, sandbox_id: str) -> None:
        request = cri.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        with self._observer.stopping(sandbox_id):
            await self._call_if_there("StopPodSandbox", request, cri.StopPodSandboxResponse)

    async def remove_sandbox(self, sandbox_id: str) -> None:
        await self.stop_sandbox(sandbox_id)
        request = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._call_if_there("RemovePodSandbox", request, cri.RemovePodSandboxResponse)

    # --- containers

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> str:
        if any(each.image for each in config.mounts):
            await self._check_image_volumes()
        if config.sandbox is not None:
            sandbox = sandbox_config(config.sandbox, self._machine.kernel)
        else:
            sandbox = found_sandbox_config(await self._observer.sandbox_status(sandbox_id))
        made = container_config(
            config,
            sandbox,
            image_user=await self._images.user(config.image_id or config.image),
            target_id=await self._target(sandbox_id, target_of(config)),
            machine=self._machine,
        )
        if sandbox.log_directory and config.log_path:
            await _make_folder(str(Path(sandbox.log_directory, config.log_path).parent))
        request = cri.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=made, sandbox_config=sandbox)
        try:
            answer = await self._whole("CreateContainer", request, cri.CreateContainerResponse)
        except (NotFound, Retry) as error:
            return await self._find_after(error, sandbox_id, made)
        return answer.container_id

    async def start_container(self, container_id: str) -> None:
        if self._observer.is_abandoned(container_id):
            raise Invalid(f"container {container_id} was stopped before it was started")
        request = cri.StartContainerRequest(container_id=container_id)
        try:
            await self._whole("StartContainer", request, cri.StartContainerResponse)
        except Retry as error:
            status = await self._observer.container_status(container_id)
            if isinstance(error, Lost) and status.state == cri.CONTAINER_RUNNING:
                return  # only the answer got lost
            if isinstance(error, Lost) and status.state == cri.CONTAINER_EXITED:
                await end_lost_task(self._channel, container_id)  # two of a kind must never run side by side
            if isinstance(error, Lost) or status.state == cri.CONTAINER_CREATED:
                raise
            raise Invalid(str(error)) from None  # it runs, or has ended: no second start is to come

    async def update_container(self, container_id: str, limits: Limits) -> None:
        told = updated_resources(limits, self._machine.kernel)
        request = cri.UpdateContainerResourcesRequest(container_id=container_id, linux=told)
        try:
            await self._call("UpdateContainerResources", request, cri.UpdateContainerResourcesResponse)
        finally:
            self._observer.forget(container_id)  # it is in the same state, and yet another

    async def stop_container(self, container_id: str, grace: float) -> None:
        seconds = _seconds(grace)
        request = cri.StopContainerRequest(container_id=container_id, timeout=seconds)
        reply, deadline = cri.StopContainerResponse, self._deadline + seconds
        with self._observer.stopping(container_id):
            await self._call_if_there("StopContainer", request, reply, deadline=deadline)
        try:
            status = await self._observer.container_status(container_id)
        except NotFound:
            return
        if status.state == cri.CONTAINER_CREATED:
            self._observer.abandon(container_id)

    async def remove_container(self, container_id: str) -> None:
        request = cri.RemoveContainerRequest(container_id=container_id)
        try:
            await self._call_if_there("RemoveContainer", request, cri.RemoveContainerResponse)
        except Lost:
            raise
        except Retry:  # a runtime stops first what it knows to run
            if not await end_lost_task(self._channel, container_id):
                raise
            await self._call_if_there("RemoveContainer", request, cri.RemoveContainerResponse)
        self._observer.forget(container_id)

    async def exec_sync(self, container_id: str, command: tuple[str, ...], timeout: float) -> ExecResult:
        seconds = _seconds(timeout)
        request = cri.ExecSyncRequest(container_id=container_id, cmd=command, timeout=seconds)
        answer = await self._call("ExecSync", request, cri.ExecSyncResponse, deadline=self._deadline + seconds)
        return ExecResult(exit_code=answer.exit_code, stdout=answer.stdout, stderr=answer.stderr)

    async def reopen_log(self, container_id: str) -> None:
        request = cri.ReopenContainerLogRequest(container_id=container_id)
        await self._call("ReopenContainerLog", request, cri.ReopenContainerLogResponse)

    # --- images

    async def image(self, name: str) -> Image | None:
        return await self._images.image(name)

    async def pull_image(self, name: str, credentials: PullCredentials | None = None) -> Image:
        return await self._images.pull(name, credentials)

    async def images(self) -> tuple[Image, ...]:
        """Those that containers of somebody else were made from are pinned: `pods` does not show who needs them."""
        others = [each for each in await self._observer.containers({}) if not each.labels.get(POD_UID)]
        return await self._images.all(kept={key for each in others for key in (each.image_ref, each.image_id)} - {""})

    async def remove_image(self, image_id: str) -> None:
        await self._images.remove(image_id)

    async def image_storage(self) -> Storage | None:
        return await self._images.storage()

    async def close(self) -> None:
        await self._channel.close()
        if self._image_channel is not self._channel:
            await self._image_channel.close()

    # --- inside

    async def _call(self, name: str, request: Message, reply: type[Reply], *, deadline: float | None = None) -> Reply:
        return await self._channel.call(f"{SERVICE}/{name}", request, reply, deadline=deadline)

    async def _whole(self, name: str, request: Message, reply: type[Reply], *, deadline: float | None = None) -> Reply:
        """A call that is not given up half-way: a runtime would leave behind what it has made so far."""
        call = asyncio.ensure_future(self._call(name, request, reply, deadline=deadline))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            await asyncio.wait([call], timeout=_PATIENCE)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            raise

    async def _call_if_there(
        self, name: str, request: Message, reply: type[Reply], *, deadline: float | None = None
    ) -> None:
        with suppress(NotFound):
            await self._call(name, request, reply, deadline=deadline)

    async def _check_user_namespaces(self, handler: str) -> None:
        """A runtime that knows nothing of them would run the pod as the host's root."""
        if any(each.name == handler and each.user_namespaces for each in (await self.status()).handlers):
            return
        who = f'RuntimeClass handler "{handler}"' if handler else "runtime"
        raise Invalid(f"can't set `spec.hostUsers: false`, {who} does not support user namespaces")

    async def _check_image_volumes(self) -> None:
        """A runtime that knows nothing of them sees a mount of nothing."""
        if self._no_images is None:
            await self.version()
        if self._no_images:
            raise Invalid(f"{IMAGE_VOLUME_FAILED}: {self._no_images}")

    async def _target(self, sandbox_id: str, name: str) -> str:
        """The id of the running container of that name."""
        if not name:
            return ""
        there = await self._observer.containers({CONTAINER_NAME: name}, sandbox_id)
        target = next((each.id for each in there if each.state == cri.CONTAINER_RUNNING), "")
        if not target:
            raise Retry(f"container {name}, whose processes are to be shared, does not run")
        return target

    async def _find_after(self, error: PykubeletError, sandbox_id: str, wanted: cri.ContainerConfig) -> str:
        """The id of the container that a call has made whose answer was lost; else raises why there is none.

        Runtimes say little more than that it failed. Was the sandbox stopped, or the attempt there before?
        """
        sandbox = await self._observer.sandbox_status(sandbox_id)
        if sandbox.state != cri.SANDBOX_READY:
            raise Retry(f"sandbox {sandbox_id} is not ready: {error}") from None
        meta = wanted.metadata
        there = [each for each in await self._observer.containers({}, sandbox_id) if each.metadata == meta]
        for each in there:
            is_ours = each.annotations == wanted.annotations and not self._observer.is_abandoned(each.id)
            if is_ours and each.state == cri.CONTAINER_CREATED:
                return each.id
        if there:
            raise Invalid(f"container {meta.name}, attempt {meta.attempt}, exists already") from None
        raise error


def _reason(condition: cri.RuntimeCondition) -> str:
    return ": ".join(filter(None, (condition.reason, condition.message))) or "the runtime does not say why"


def _handler(handler: cri.RuntimeHandler) -> RuntimeHandler:
    return RuntimeHandler(
        name=handler.name,
        recursive_read_only_mounts=handler.features.recursive_read_only_mounts,
        user_namespaces=handler.features.user_namespaces,
    )


def _seconds(time: float) -> int:
    """CRI counts in whole seconds. Nobody gets less time than was promised."""
    return min(max(math.ceil(time), 0), _LONGEST_SECONDS)


async def _make_folder(path: str) -> None:
    if path:
        await asyncio.to_thread(Path(path).mkdir, 0o755, parents=True, exist_ok=True)


def _note(journal: Journal, method: str, seconds: float, error: str) -> None:
    journal.note(RuntimeCalled(method, seconds, error))


def knows_cdi(name: str, version: str) -> bool:
    """containerd does from 2.0 on, unless told otherwise; before, it would start containers without their devices."""
    major = version.lstrip("v").partition(".")[0]
    return name == "cri-o" or (name == "containerd" and major.isdecimal() and int(major) >= 2)
