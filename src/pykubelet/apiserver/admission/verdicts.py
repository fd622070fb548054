"""What the expressions about one write are told of who may do what: each question is asked once."""

from typing import Any

from pykubelet.apiserver.cel.library_authorization import Authorizer, Decision, Question, ResourceCheck, Unanswered
from pykubelet.apiserver.requests.access import AccessControl
from pykubelet.apiserver.requests.admission import Attempt
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import service_account_user
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.status import ApiError


class Verdicts:
    def __init__(self, access: AccessControl, attempt: Attempt) -> None:
        self._access = access
        self._attempt = attempt
        self._known: dict[Question, Decision] = {}

    def values(self, seen_as: Resource) -> dict[str, Any]:
        """The variables of the expressions."""
        attempt = self._attempt
        own = Question(
            group=seen_as.group,
            resource=seen_as.plural,
            subresource=attempt.part,
            namespace=attempt.namespace,
            name=attempt.name,
        )
        return {"authorizer": Authorizer(self._of), "authorizer.requestResource": ResourceCheck(self._of, own)}

    def _of(self, question: Question) -> Decision:
        found = self._known.get(question)
        if found is None:
            raise Unanswered(question)
        return found

    async def find(self, question: Question) -> None:
        account = question.account
        user = self._attempt.user if account is None else service_account_user(*account, "", {})
        try:
            self._known[question] = Decision(True, await self._access.check(user, _info(question)))
        except ApiError as error:
            self._known[question] = Decision(False, error="" if error.code == 403 else str(error))


def _info(question: Question) -> RequestInfo:
    if not question.resource:
        path = question.path if question.path.startswith("/") else f"/{question.path}"
        return RequestInfo(question.verb, path)
    return RequestInfo(
        verb=question.verb,
        path="",
        is_resource=True,
        group=question.group,
        version="*",
        resource=question.resource,
        subresource=question.subresource,
        namespace=question.namespace,
        name=question.name,
        field_selector=question.field_selector,
        label_selector=question.label_selector,
    )
