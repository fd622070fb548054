"""What runs in a folder, an API server and a node or a node alone: started, waited for, stopped, removed.

`down` stops everything and keeps what the API server knows and what pods have left; `reset` takes that away, too.
"""

import asyncio
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.host.removal import remove_tree
from pykubelet.up.folder import Folder, Plan, Say, asked_pods, called
from pykubelet.up.parts import PROGRAM, clearing_agent, parts
from pykubelet.up.supervisor import (
    CANNOT_START,
    PARTS,
    Part,
    bereft_keeper,
    holder,
    last_line,
    left_something,
    write_parts,
)

_START_SECONDS: Final = 60.0
_LOOK: Final = 0.1
_PATIENCE: Final = 10.0


class Installation:
    def __init__(self, folder: Folder, say: Say) -> None:
        self._folder = folder
        self._say = say

    @property
    def is_running(self) -> bool:
        return holder(self._folder.lock) is not None

    def start(self, plan: Plan) -> None:
        """Returns when its keeper is there."""
        self._say(f"Starting {_what(plan)} (data and logs in {self._folder.path}) ...")
        self._start(plan, parts(self._folder, plan))

    def _start(self, plan: Plan, kept: Sequence[Part]) -> None:
        folder, what = self._folder, _what(plan)
        write_parts(folder.path / PARTS, kept)
        command = [*PROGRAM, "supervise", "--data", str(folder.path)]
        with folder.log("up").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + _PATIENCE
        while not self.is_running:
            if process.poll() is not None or time.monotonic() > deadline:
                self._tell_log("up")
                raise Invalid(f"{what} cannot be started; above is what was said")
            time.sleep(_LOOK)

    def wait(self, plan: Plan) -> None:
        """Until the node is ready. Raises Invalid when that takes too long, or cannot be."""
        from pykubelet.up.wait import wait_until_ready  # an HTTP client takes long to load: others start meanwhile

        conf = plan.kubeconfig or str(self._folder.admin_kubeconfig)
        why = asyncio.run(wait_until_ready(conf, plan.node, self._say, _START_SECONDS, lambda: self.is_running))
        if why and not self.is_running:
            raise Invalid(last_line(self._folder.log("up"), CANNOT_START) or why)
        if why:
            for name in ("agent",) if plan.made_by == "join" else ("apiserver", "agent"):
                self._tell_log(name)
            raise Invalid(f"{why}; above is what was said last, more is in {self._folder.path}/*.log")

    def trouble(self, plan: Plan) -> str:
        """Which part of what runs does not answer; empty: all of them do."""
        from pykubelet.up.wait import answers

        if not asyncio.run(answers(plan.kubeconfig or str(self._folder.admin_kubeconfig), _PATIENCE)):
            return "the API server does not answer"
        try:
            asked_pods(self._folder.state)
        except Retry as error:
            return f"the node does not answer: {error}"
        return ""

    def down(self, *, to_go_on: bool = True) -> None:
        """Stop everything, pods and all. What the API server knows is there again after the next `up`, and so are the
        logs and restarts of pods; people are told so where that is what comes next."""
        folder = self._folder
        if not folder.mark.exists() and (pid := bereft_keeper(folder.path)) is not None:
            self._say(f"{folder.path} was removed while it was in use; stopping what still runs ...")
            self._end(pid)
            remove_tree(str(folder.path))  # what was written there since
            self._say("All is stopped.")
            return
        if not folder.is_ours():
            self._say("There is nothing to stop.")
            return
        if left_something(folder.lock) and folder.has_run():
            self._start_agent_alone(folder.plan())
        plan_or_none = folder.read_plan()
        self._stop(_what(plan_or_none))
        if not to_go_on:
            self._say("All is stopped.")
            return
        again, reset = plan_or_none.made_by if plan_or_none else "up", f"{called()} reset{folder.flag}"
        self._say(
            f"All is stopped. `{called()} {again}{folder.flag}` goes on from here; `{reset}` removes {folder.path}."
        )

    def reset(self) -> None:
        """Stop everything and remove all that was made."""
        folder = self._folder
        if not folder.is_ours():
            self._say("There is nothing to remove.")
            return
        plan = folder.read_plan()
        if folder.state.exists():
            self.down(to_go_on=False)
        if plan and any((folder.state / "pods").glob("*")):
            self._remove_pods(plan)
        try:
            remove_tree(str(folder.path))
        except (OSError, PykubeletError) as error:
            raise Invalid(f"{folder.path} could not be removed: {error}") from None
        self._say("All is cleared away.")
        if plan and plan.made_by == "join":
            self._say(f"The API server still knows the node: `kubectl delete node {plan.node}` takes it from there.")

    def reset_quietly(self) -> None:
        """After a first start that has failed: no agent has run, and no pod."""
        if not self._folder.has_run():
            remove_tree(str(self._folder.path))

    def _start_agent_alone(self, plan: Plan) -> None:
        """Whoever was killed has left pods running: it takes an agent to stop them, but no API server."""
        self._start(plan, parts(self._folder, plan)[-1:])
        deadline = time.monotonic() + _START_SECONDS
        while self.is_running and time.monotonic() < deadline:
            try:
                asked_pods(self._folder.state)
                return
            except Retry:
                time.sleep(_LOOK)
        why = last_line(self._folder.log("up"), CANNOT_START) or "it does not answer"
        raise Invalid(f"no agent can be started to stop the pods: {why}")

    def _remove_pods(self, plan: Plan) -> None:
        """A runtime that does not answer keeps what it has of them, and nobody from removing the rest."""
        with self._folder.log("agent").open("ab") as log:
            try:
                command = clearing_agent(self._folder, plan)
                done = subprocess.run(command, stdout=log, stderr=log, timeout=_START_SECONDS, check=False)  # noqa: S603
            except subprocess.TimeoutExpired:
                self._say(f"{plan.runtime} does not answer, and keeps what it has of the stopped pods")
                return
        if done.returncode:
            self._say("What the runtime has of the stopped pods could not be removed:")
            self._tell_log("agent")

    def _stop(self, what: str) -> None:
        """However long the pods take: each has a grace of its own."""
        pid = holder(self._folder.lock)
        if pid is None:
            return
        self._say(f"Stopping the pods, then {what} ...")
        self._end(pid)

    def _end(self, pid: int) -> None:
        process = os.pidfd_open(pid)
        signal.pidfd_send_signal(process, signal.SIGTERM)
        while not select.select([process], [], [], _PATIENCE)[0]:
            names = [pod["metadata"].get("name", "?") for pod in self._folder.pods() if _has_running(pod)]
            self._say(f"still stopping: {', '.join(names) or 'the node'} (the log is {self._folder.log('agent')})")
        os.close(process)

    def _tell_log(self, name: str) -> None:
        path = self._folder.log(name)
        for line in path.read_text(errors="replace").splitlines()[-5:] if path.exists() else ():
            self._say(line)


def _has_running(pod: Mapping[str, Any]) -> bool:
    status = pod.get("status", {})
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    return any("running" in each.get("state", {}) for kind in kinds for each in status.get(kind, ()))


def _what(plan: Plan | None) -> str:
    return "the node" if plan and plan.made_by == "join" else "the API server and the node"
