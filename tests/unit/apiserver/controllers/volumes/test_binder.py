# ruff: noqa: ASYNC240 - tests may block
"""Claims find their volumes, volumes are made when they are wanted, and nobody loses what is not his to lose."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from kit.cluster import TestCluster, cluster, running
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.apiserver.controllers.client import CLAIMS, PODS, VOLUMES
from pykubelet.apiserver.controllers.scheduling.scheduler import Scheduler
from pykubelet.apiserver.controllers.volumes import host_path
from pykubelet.apiserver.controllers.volumes.binder import CLASSES, VolumeBinder
from pykubelet.apiserver.controllers.volumes.ephemeral import EphemeralVolumes
from pykubelet.apiserver.controllers.volumes.host_path import HostPathProvisioner
from pykubelet.base.errors import Retry


def claim(name: str = "c", size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": whole}


def volume(name: str, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> dict[str, Any]:
    whole = {"capacity": {"storage": size}, "accessModes": list(modes), "hostPath": {"path": f"/srv/{name}"}, **spec}
    return {"metadata": {"name": name}, "spec": whole}


def storage_class(name: str, provisioner: str = "example.com/x", mode: str = "WaitForFirstConsumer") -> dict[str, Any]:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


async def made(c: TestCluster, *claims: dict[str, Any], volumes: tuple[dict[str, Any], ...] = ()) -> None:
    for each in volumes:
        await c.make(VOLUMES, each)
    for each in claims:
        await c.make(CLAIMS, each)
    await asyncio.sleep(3)


async def stands(c: TestCluster, name: str = "c") -> tuple[str, str]:
    """The phase of a claim, and its volume."""
    found = await c.get("persistentvolumeclaims", name)
    return found["status"]["phase"], found["spec"].get("volumeName", "")


async def phase(c: TestCluster, name: str) -> str:
    found = await c.get("persistentvolumes", name, "")
    return str(found["status"]["phase"]) if found else "gone"


@virtual_time
async def test_a_claim_gets_the_smallest_volume_that_does() -> None:
    async with cluster() as c, running(VolumeBinder(c)):
        many = (
            volume("small", "500Mi"),
            volume("large", "10Gi"),
            volume("right", "2Gi"),
            volume("shared", "1Gi", ("ReadWriteMany",)),
            volume("also-shared", "1Gi", ("ReadWriteOnce", "ReadWriteMany")),
            volume("other-class", "1Gi", storageClassName="x"),
            volume("block", "1Gi", volumeMode="Block"),
        )
        await made(c, claim(), volumes=many)
        assert await stands(c) == ("Bound", "right")
        found = await c.get("persistentvolumeclaims", "c")
        assert found["status"]["capacity"] == {"storage": "2Gi"}
        assert found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
        bound = await c.get("persistentvolumes", "right", "")
        assert (bound["status"]["phase"], bound["spec"]["claimRef"]["uid"]) == ("Bound", found["metadata"]["uid"])
        assert await phase(c, "large") == "Available"


@virtual_time
async def test_what_people_have_put_together_stays_together() -> None:
    async with cluster() as c, running(VolumeBinder(c)):
        kept = volume("kept", claimRef={"namespace": "default", "name": "c"})
        named = claim("named", volumeName="wanted")
        await made(c, claim(), named, volumes=(volume("free"), kept, volume("wanted", "5Gi")))
        assert await stands(c) == ("Bound", "kept")
        assert await stands(c, "named") == ("Bound", "wanted")
        await made(c, claim("late", volumeName="wanted"), claim("small", "9Gi", volumeName="free"))
        assert await stands(c, "late") == ("Pending", "wanted")
        events = await c.events()
        assert ("FailedBinding", 'volume "wanted" already bound to a different claim.') in events
        assert ("VolumeMismatch", 'Cannot bind to requested volume "free": requested PV is too small') in events


@virtual_time
async def test_a_claim_without_a_volume_says_why() -> None:
    async with cluster() as c, running(VolumeBinder(c)):
        await c.make(CLASSES, storage_class("outside", mode="Immediate"))
        await c.make(CLASSES, storage_class("later"))
        classes = {"none": "", "gone": "missing", "waits": "outside", "first": "later"}
        await made(c, *(claim(name, storageClassName=found) for name, found in classes.items()))
        told = dict(await c.events())
        assert told["FailedBinding"] == "no persistent volumes available for this claim and no storage class is set"
        assert told["ProvisioningFailed"] == 'storageclass.storage.k8s.io "missing" not found'
        assert told["WaitForFirstConsumer"] == "waiting for first consumer to be created before binding"
        assert "by the external provisioner 'example.com/x'" in told["ExternalProvisioning"]
        waits = await c.get("persistentvolumeclaims", "waits")
        assert waits["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"] == "example.com/x"
        assert {(await stands(c, name))[0] for name in classes} == {"Pending"}


@virtual_time
async def test_a_volume_whose_claim_is_gone_is_released_and_kept() -> None:
    async with cluster() as c, running(VolumeBinder(c)):
        await made(c, claim(), volumes=(volume("v"),))
        found = await c.get("persistentvolumeclaims", "c")
        await c.change(CLAIMS, found, lambda live: {**live, "metadata": {**live["metadata"], "finalizers": []}})
        await c.remove(CLAIMS, found)
        await asyncio.sleep(3)
        assert await phase(c, "v") == "Released"
        await made(c, claim())  # another one of this name
        assert await stands(c) == ("Pending", "")


@virtual_time
async def test_a_claim_that_has_lost_its_volume_says_so() -> None:
    async with cluster() as c, running(VolumeBinder(c)):
        await made(c, claim(), volumes=(volume("v"),))
        found = await c.get("persistentvolumes", "v", "")
        await c.change(VOLUMES, found, lambda live: {**live, "metadata": {**live["metadata"], "finalizers": []}})
        await c.remove(VOLUMES, found)
        await asyncio.sleep(3)
        assert await stands(c) == ("Lost", "v")
        assert (
            "ClaimLost",
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        ) in await c.events()


@virtual_time
async def test_of_two_that_want_one_volume_one_gets_it() -> None:
    async with cluster() as c, running(VolumeBinder(c)):
        await made(c, claim("a"), claim("b"), volumes=(volume("v"),))
        assert sorted([await stands(c, "a"), await stands(c, "b")]) == [("Bound", "v"), ("Pending", "")]


@virtual_time
async def test_a_claim_from_before_the_default_class_gets_it() -> None:
    async with cluster() as c, running(VolumeBinder(c)):
        await made(c, claim())
        default = storage_class("std")
        default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        await c.make(CLASSES, default)
        await asyncio.sleep(3)
        assert (await c.get("persistentvolumeclaims", "c"))["spec"]["storageClassName"] == "std"


@virtual_time
async def test_a_claim_without_a_class_gets_a_volume_without_one_before_the_default_class() -> None:
    async with cluster() as c:
        await made(c, claim(), volumes=(volume("v"),))
        default = storage_class("std")
        default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        await c.make(CLASSES, default)
        async with running(VolumeBinder(c)):
            await asyncio.sleep(3)
            assert await stands(c) == ("Bound", "v")


@virtual_time
async def test_a_claim_waits_for_the_pods_that_wait_for_nodes() -> None:
    async with cluster() as c, running(VolumeBinder(c)):
        await c.make(CLASSES, storage_class("later"))
        for name in ("p", "q"):
            await c.pod(name, mounting("c"))
        await made(c, claim(storageClassName="later"))
        assert await c.events() == [("WaitForPodScheduled", "waiting for pods p,q to be scheduled")]


@virtual_time
async def test_many_claims_look_at_all_pods_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster() as c:
        looks, views = 0, c.views

        def counted(kind: Any, *how: Any) -> Any:
            nonlocal looks
            looks += kind == ("", "pods")
            return views(kind, *how)

        await c.make(CLASSES, storage_class("later"))
        for name in ("a", "b", "c"):
            await c.pod(name, mounting(name))
            await made(c, claim(name, storageClassName="later"))
        monkeypatch.setattr(c, "views", counted)
        await VolumeBinder(c).sync()
        assert looks == 1
        assert {f"waiting for pod {name} to be scheduled" for name in "abc"} == {text for _, text in await c.events()}


@virtual_time
async def test_a_volume_that_nobody_has_made_is_deleted_by_nobody() -> None:
    async with cluster() as c, running(VolumeBinder(c)):
        gone = {"namespace": "default", "name": "x", "uid": "u"}
        await made(c, volumes=(volume("v", persistentVolumeReclaimPolicy="Delete", claimRef=gone),))
        assert await phase(c, "v") == "Failed"
        why = 'error getting deleter volume plugin for volume "v": no deletable volume plugin matched'
        assert await c.events() == [("VolumeFailedDelete", why)]


@virtual_time
async def test_a_volume_of_another_class_of_attributes_is_not_taken() -> None:
    async with cluster() as c, running(VolumeBinder(c)):
        gold: dict[str, Any] = {"volumeAttributesClassName": "gold"}
        silver: dict[str, Any] = {"volumeAttributesClassName": "silver"}
        await made(c, claim(**gold), volumes=(volume("plain"), volume("s", **silver), volume("g", "5Gi", **gold)))
        assert await stands(c) == ("Bound", "g")
        found = await c.get("persistentvolumeclaims", "c")
        assert found["status"]["currentVolumeAttributesClassName"] == "gold"


# --- with the scheduler, and volumes that are made


def mounting(*claims: str) -> dict[str, Any]:
    return {"volumes": [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]}


@virtual_time
async def test_a_volume_is_made_where_its_pod_runs_and_goes_with_its_claim(tmp_path: Path) -> None:
    folder = tmp_path / "volumes"
    async with cluster() as c:
        provisioner = HostPathProvisioner(c, str(folder))
        async with running(VolumeBinder(c, provisioner)), running(Scheduler(c)):
            await c.add(
                "",
                "nodes",
                {**await c.node("n1"), "metadata": {"name": "n2", "labels": {"kubernetes.io/hostname": "n2"}}},
            )
            await made(c, claim())
            assert await stands(c) == ("Pending", "")
            await c.pod("p", mounting("c") | {"nodeSelector": {"kubernetes.io/hostname": "n2"}})
            await asyncio.sleep(5)
            assert (await c.get("pods", "p"))["spec"]["nodeName"] == "n2"
            phase_, name = await stands(c)
            assert phase_ == "Bound"
            found = await c.get("persistentvolumes", name, "")
            assert found["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0][
                "values"
            ] == ["n2"]
            path = Path(found["spec"]["hostPath"]["path"])
            assert path.parent == folder
            assert oct(path.stat().st_mode)[-3:] == "777"
            assert oct(folder.stat().st_mode)[-3:] == "700"
            (path / "data").write_text("x")
            await c.remove(PODS, await c.get("pods", "p"), grace=0)
            live = await c.get("persistentvolumeclaims", "c")
            await c.change(CLAIMS, live, lambda now: {**now, "metadata": {**now["metadata"], "finalizers": []}})
            await c.remove(CLAIMS, live)
            await asyncio.sleep(5)
            assert not path.exists()
            left = await c.get("persistentvolumes", name, "")
            assert left is None or left["metadata"]["deletionTimestamp"]


@virtual_time
async def test_a_folder_on_another_machine_is_removed_by_its_node(tmp_path: Path) -> None:
    """The volume goes when the node has answered; one that never made a folder, or is gone, is not waited for."""
    async with cluster() as c, running(VolumeBinder(c, HostPathProvisioner(c, str(tmp_path), "here"))):
        marks = {"makes": {"pykubelet.io/remove-volumes": "earlier"}, "foreign": {}}
        for name, annotations in marks.items():
            metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": annotations}
            await c.add("", "nodes", {"metadata": metadata, "status": {"nodeInfo": {"bootID": "there"}}})
        for name in ("makes", "foreign", "gone"):
            terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}]
            where: dict[str, Any] = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
            claimed = {"namespace": "default", "name": "x", "uid": f"was-{name}"}
            left = volume(f"pv-{name}", persistentVolumeReclaimPolicy="Delete", claimRef=claimed, **where)
            left["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": "pykubelet.io/host-path"}
            left["spec"]["hostPath"] = {"path": f"{tmp_path}/pv-{name}_x"}
            left["metadata"]["finalizers"] = []
            await c.add("", "persistentvolumes", left)
        await asyncio.sleep(70)
        assert [each["metadata"]["name"] for each in await c.all(VOLUMES)] == ["pv-makes"]

        async def asked() -> str:
            found: str = (await c.get("nodes", "makes", ""))["metadata"]["annotations"]["pykubelet.io/remove-volumes"]
            return found

        assert await asked() == "earlier,pv-makes"
        await asyncio.sleep(130)
        assert await asked() == "earlier,pv-makes"
        node = await c.get("nodes", "makes", "")
        answer = {**node["metadata"], "annotations": {"pykubelet.io/remove-volumes": ""}}
        await c.change(("", "nodes"), node, lambda live: {**live, "metadata": {**live["metadata"], **answer}})
        await asyncio.sleep(70)
        assert not await c.all(VOLUMES)


@virtual_time
async def test_a_claim_with_the_longest_of_names_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    folder, name = tmp_path / "volumes", "c" * 253
    async with cluster() as c, running(VolumeBinder(c, HostPathProvisioner(c, str(folder)))), running(Scheduler(c)):
        await c.node("n1")
        for each in (name, name[:-1]):
            asked = claim()
            await made(c, {**asked, "metadata": {**asked["metadata"], "name": each}})
        await c.pod("p", mounting_as({"a": name, "b": name[:-1]}))
        await asyncio.sleep(5)
        assert len({each.name for each in folder.iterdir()}) == 2
        assert (await c.get("persistentvolumeclaims", name))["status"]["phase"] == "Bound"


def mounting_as(claims: dict[str, str]) -> dict[str, Any]:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": each}} for name, each in claims.items()]}


@virtual_time
async def test_nobody_has_something_else_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    async with cluster() as c, running(VolumeBinder(c, HostPathProvisioner(c, str(tmp_path / "volumes")))):
        forged = volume(
            "pvc-forged",
            persistentVolumeReclaimPolicy="Delete",
            claimRef={"namespace": "default", "name": "x", "uid": "u"},
        )
        forged["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": "pykubelet.io/host-path"}
        forged["spec"]["hostPath"] = {"path": str(precious)}
        await made(c, volumes=(forged,))
        assert await phase(c, "pvc-forged") == "Failed"
        assert precious.is_dir()


@virtual_time
async def test_a_claim_that_says_it_is_bound_is_not_believed(tmp_path: Path) -> None:
    """Whoever may only make claims wants another's volume, one that was left behind, and a folder of his choice."""
    marks = {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
        "volume.kubernetes.io/selected-node": "../../etc",
        "volume.kubernetes.io/storage-provisioner": "somebody.else",
    }
    left = volume("left", claimRef={"namespace": "default", "name": "was", "uid": "long-gone"})
    async with cluster() as c, running(VolumeBinder(c, HostPathProvisioner(c, str(tmp_path / "volumes")))):
        await c.node("n1")
        await made(c, claim("hers", storageClassName=""), volumes=(volume("taken"), left))
        assert await stands(c, "hers") == ("Bound", "taken")
        for name, wanted in {"a": "taken", "was": "left", "b": "none-such", "d": ""}.items():
            forged = claim(name, **({"volumeName": wanted, "storageClassName": ""} if wanted else {}))
            forged["metadata"] |= {"annotations": marks, "uid": "long-gone"}
            await made(c, forged)
        await asyncio.sleep(70)
        for name in ("a", "was", "b", "d"):
            assert (await stands(c, name))[0] == "Lost", name
        assert await stands(c, "hers") == ("Bound", "taken")
        assert (await c.get("persistentvolumes", "left", ""))["spec"]["claimRef"]["uid"] == "long-gone"
        without = claim("e")
        without["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "../../etc"}
        await made(c, without)
        assert await stands(c, "e") == ("Pending", "")
        assert not (tmp_path / "volumes").exists()


async def test_a_volume_that_takes_for_ever_to_remove_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever had it may have filled it with millions of files, or goes on to fill it."""
    may_end, began = threading.Event(), list[str]()

    def slow(path: str) -> None:
        began.append(path)
        assert may_end.wait(20)

    monkeypatch.setattr(host_path, "sweep", slow)
    monkeypatch.setattr(host_path, "_PATIENCE", 0.05)
    async with cluster() as c:
        provisioner = HostPathProvisioner(c, str(tmp_path))
        full, other = (volume(name, hostPath={"path": f"{tmp_path}/{name}_x"}) for name in ("full", "other"))
        for each in (full, other, full):
            with pytest.raises(Retry, match="still being removed"):
                await provisioner.take_away(each)
        assert began == [f"{tmp_path}/full_x"], "one thread is enough for those who have time"
        may_end.set()
        await eventually(lambda: len(began) == 2)
        assert [await provisioner.take_away(each) for each in (full, other)] == ["", ""]


@virtual_time
async def test_while_one_is_removed_others_are_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def not_yet(self: HostPathProvisioner, volume: dict[str, Any]) -> str:
        raise Retry("still being removed")

    monkeypatch.setattr(HostPathProvisioner, "take_away", not_yet)
    async with cluster() as c, running(VolumeBinder(c, HostPathProvisioner(c, str(tmp_path)))):
        gone = {"namespace": "default", "name": "x", "uid": "u"}
        leaving = volume("a", persistentVolumeReclaimPolicy="Delete", claimRef=gone)
        leaving["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": "pykubelet.io/host-path"}
        await made(c, claim(storageClassName=""), volumes=(leaving, volume("b")))
        assert await stands(c) == ("Bound", "b")
        assert await phase(c, "a") == "Released"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"volumeMode": "Block"}, "a folder is no block device"),
        ({"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}}, "volumes are made empty"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "claim.spec.selector is not supported"),
    ],
)
@virtual_time
async def test_what_no_folder_can_be_is_refused(tmp_path: Path, spec: dict[str, Any], told: str) -> None:
    async with cluster() as c, running(VolumeBinder(c, HostPathProvisioner(c, str(tmp_path / "volumes")))):
        await c.node("n1")
        await c.make(CLASSES, storage_class("now", "pykubelet.io/host-path", "Immediate"))
        await made(c, claim(storageClassName="now", **spec))
        assert [text for reason, text in await c.events() if reason == "ProvisioningFailed" and told in text]
        assert await stands(c) == ("Pending", "")


@virtual_time
async def test_a_pod_waits_for_its_claims_and_says_for_what() -> None:
    async with cluster() as c, running(VolumeBinder(c)), running(Scheduler(c)):
        await c.node("n1")
        await c.make(CLASSES, storage_class("later", "kubernetes.io/no-provisioner"))
        await made(c, claim("unbound"), claim("nowhere", storageClassName="later"))
        await made(c, claim("elsewhere"), volumes=(_on("far", "n9"),))
        for name in ("missing", "unbound", "nowhere", "elsewhere"):
            await c.pod(f"p-{name}", mounting(name))
        await asyncio.sleep(5)
        why = {}
        for name in ("missing", "unbound", "nowhere", "elsewhere"):
            (told,) = (await c.get("pods", f"p-{name}"))["status"]["conditions"]
            why[name] = told["message"].partition(" preemption")[0]
        assert why == {
            "missing": '0/1 nodes are available: persistentvolumeclaim "missing" not found.',
            "unbound": "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "nowhere": "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.",
            "elsewhere": "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity.",
        }
        await made(c, volumes=(_on("near", "n1", storageClassName="later"),))
        await asyncio.sleep(5)
        assert (await c.get("pods", "p-nowhere"))["spec"]["nodeName"] == "n1"
        assert await stands(c, "nowhere") == ("Bound", "near")


def _on(name: str, node: str, **spec: Any) -> dict[str, Any]:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return volume(name, nodeAffinity={"required": {"nodeSelectorTerms": terms}}, **spec)


@virtual_time
async def test_a_claim_for_one_pod_is_for_one_pod() -> None:
    async with cluster() as c, running(VolumeBinder(c)), running(Scheduler(c)):
        await c.node("n1")
        once = claim(accessModes=["ReadWriteOncePod"])
        await made(c, once, volumes=(volume("v", modes=("ReadWriteOncePod",)),))
        await c.pod("one", mounting("c"))
        await asyncio.sleep(3)
        await c.pod("two", mounting("c"))
        await asyncio.sleep(3)
        assert (await c.get("pods", "one"))["spec"]["nodeName"] == "n1"
        (told,) = (await c.get("pods", "two"))["status"]["conditions"]
        assert "ReadWriteOncePod access mode" in told["message"]


@virtual_time
async def test_volumes_of_a_pods_own_get_claims_that_are_the_pods() -> None:
    async with cluster() as c, running(EphemeralVolumes(c)):
        template = {"metadata": {"labels": {"a": "b"}}, "spec": claim()["spec"]}
        pod = await c.pod("p", {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]})
        await made(c, claim("q-v"))
        await c.pod("q", {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]})
        await asyncio.sleep(3)
        found = await c.get("persistentvolumeclaims", "p-v")
        assert found["metadata"]["labels"] == {"a": "b"}
        assert found["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
        assert any("pod is not owner" in text for _, text in await c.events())


@virtual_time
async def test_the_class_for_everybody_is_offered_once_and_not_forced(tmp_path: Path) -> None:
    async with cluster() as c:
        provisioner = HostPathProvisioner(c, str(tmp_path))
        await provisioner.offer()
        await provisioner.offer()
        (found,) = await c.all(CLASSES)
        assert found["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
        assert (found["provisioner"], found["volumeBindingMode"]) == ("pykubelet.io/host-path", "WaitForFirstConsumer")
