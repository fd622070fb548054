"""The pods that should be here, and the mirrors that show the static ones."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kit.pods import make_pod
from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import full_name
from pykubelet.api.rules.well_known import HASH_ANNOTATION, MIRROR_ANNOTATION, SOURCE_ANNOTATION
from pykubelet.pod.lifecycle.table import PodTable


def static(name: str = "web", uid: str = "") -> Pod:
    uid = uid or f"static-{name}"
    return make_pod(name, uid=uid, annotations={SOURCE_ANNOTATION: "file", HASH_ANNOTATION: uid})


def mirror(name: str = "web", uid: str = "") -> Pod:
    annotations = {SOURCE_ANNOTATION: "api", MIRROR_ANNOTATION: "hash"}
    return make_pod(name, uid=uid or f"mirror-{name}", annotations=annotations)


def ordinary(name: str = "job", uid: str = "", image: str = "app:1") -> Pod:
    return make_pod(name, uid=uid or f"uid-{name}", image=image, annotations={SOURCE_ANNOTATION: "api"})


def test_a_pod_is_found_by_its_uid_and_by_its_name() -> None:
    table = PodTable([ordinary()])
    assert table.get("uid-job") == table.by_name("default", "job") == ordinary()
    assert "uid-job" in table
    assert table.get("other") is table.by_name("default", "other") is None


def test_an_update_replaces_the_pod() -> None:
    table = PodTable([ordinary()])
    table.add(ordinary(image="app:2"))
    assert table.pods() == (ordinary(image="app:2"),)
    assert table.by_name("default", "job") == ordinary(image="app:2")


def test_a_removed_pod_is_gone_and_may_be_removed_again() -> None:
    table = PodTable([ordinary()])
    table.remove(ordinary())
    table.remove(ordinary())
    assert len(table) == 0
    assert table.get("uid-job") is table.by_name("default", "job") is None


def test_mirrors_are_no_pods() -> None:
    table = PodTable([static(), mirror(), ordinary()])
    assert table.pods() == (static(), ordinary())
    assert table.mirrors() == (mirror(),)
    assert table.static_pods() == (static(),)
    assert table.get("mirror-web") is None
    assert table.by_name("default", "web") == static()


def test_a_static_pod_and_its_mirror_know_each_other_whichever_came_first() -> None:
    for table in (PodTable([static(), mirror()]), PodTable([mirror(), static()])):
        assert table.mirror_of(static()) == mirror()
        assert table.static_of(mirror()) == static()
        assert table.pod_uid("mirror-web") == "static-web"
        assert table.orphaned_mirrors() == ()


def test_a_mirror_without_its_pod_is_an_orphan() -> None:
    table = PodTable([mirror()])
    assert table.orphaned_mirrors() == (mirror(),)
    table.add(static())
    assert table.orphaned_mirrors() == ()
    table.remove(static())
    assert table.orphaned_mirrors() == (mirror(),)
    table.remove(mirror())
    assert table.orphaned_mirrors() == ()


def test_a_uid_that_is_no_mirrors_stays_as_it_is() -> None:
    table = PodTable([static(), ordinary()])
    assert [table.pod_uid(uid) for uid in ("static-web", "uid-job", "unknown", "")] == [
        "static-web",
        "uid-job",
        "unknown",
        "",
    ]


def test_while_a_removed_static_pod_stops_its_mirror_still_stands_for_it() -> None:
    table = PodTable([static(), mirror()])
    table.remove(static())
    assert table.pod_uid("mirror-web") == "static-web"
    table.remove(mirror())
    assert table.pod_uid("mirror-web") == "mirror-web"


def test_a_changed_static_pod_takes_over_the_mirror() -> None:
    table = PodTable([static(), mirror()])
    table.remove(static())
    table.add(static(uid="changed"))
    assert table.pod_uid("mirror-web") == "changed"


def test_a_new_mirror_takes_the_place_of_the_old_one() -> None:
    table = PodTable([static(), mirror()])
    table.add(mirror(uid="second"))
    table.remove(mirror())
    assert table.mirror_of(static()) == mirror(uid="second")
    assert table.pod_uid("mirror-web") == "mirror-web"


def test_removing_an_old_pod_leaves_its_newer_namesake_alone() -> None:
    table = PodTable([ordinary(uid="1"), ordinary(uid="2")])
    assert table.by_name("default", "job") == ordinary(uid="2")
    table.remove(ordinary(uid="1"))
    assert table.by_name("default", "job") == ordinary(uid="2")


def test_when_the_newer_of_two_namesakes_goes_the_older_one_has_the_name() -> None:
    table = PodTable([static(uid="1"), static(uid="2"), mirror()])
    table.remove(static(uid="2"))
    assert table.by_name("default", "web") == static(uid="1")
    assert table.pod_uid("mirror-web") == "1"
    assert table.orphaned_mirrors() == ()


def test_a_pod_that_turns_out_to_be_a_mirror_is_no_pod_any_more() -> None:
    table = PodTable([ordinary("web", "x"), static()])
    table.add(mirror(uid="x"))
    assert table.pods() == (static(),)
    assert table.pod_uid("x") == "static-web"


class Table(RuleBasedStateMachine):
    """Whatever comes and goes, the table answers as a search through all pods would."""

    def __init__(self) -> None:
        super().__init__()
        self.table = PodTable()
        self.pods: dict[str, Pod] = {}
        self.shown: dict[str, Pod] = {}

    @rule(name=st.sampled_from("abc"), uid=st.sampled_from("12"), kind=st.sampled_from((static, ordinary)))
    def add(self, name: str, uid: str, kind: type) -> None:
        pod = kind(name, f"{name}{uid}")
        self.pods[pod.metadata.uid] = pod
        self.table.add(pod)

    @rule(name=st.sampled_from("abc"))
    def show(self, name: str) -> None:
        self.shown[f"mirror-{name}"] = mirror(name)
        self.table.add(mirror(name))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        self.table.remove(self.pods.pop(uid))

    @precondition(lambda self: self.shown)
    @rule(data=st.data())
    def hide(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.shown)))
        self.table.remove(self.shown.pop(uid))

    @invariant()
    def answers_as_a_search_would(self) -> None:
        named: dict[str, Pod] = {full_name(pod): pod for pod in self.pods.values()}
        assert {pod.metadata.uid: pod for pod in self.table.pods()} == self.pods
        assert all(self.table.by_name(pod.metadata.namespace, pod.metadata.name) for pod in named.values())
        orphans = {uid for uid, pod in self.shown.items() if full_name(pod) not in named}
        assert {pod.metadata.uid for pod in self.table.orphaned_mirrors()} == orphans
        for uid, shown in self.shown.items():
            pod = self.table.static_of(shown)
            assert (pod is None) == (uid in orphans)
            if pod is not None:
                assert self.table.pod_uid(uid) == pod.metadata.uid


TestTable = Table.TestCase
TestTable.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
