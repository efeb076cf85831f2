"""What AlterConfigs and IncrementalAlterConfigs share: a resource each, an answer each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from floodmark.apis.config_resources import Refused, resource_of, type_of
from floodmark.apis.decisions import decided
from floodmark.controller.configs import ConfigAnswer
from floodmark.metadata.image import ConfigResource
from floodmark.wire.errors import ErrorCode


class Asked(Protocol):
    """A resource of either request."""

    resource_type: int
    resource_name: str


class Wish(Protocol):
    """What the controller is asked to do to a resource."""

    @property
    def resource(self) -> ConfigResource: ...


AskedT = TypeVar("AskedT", bound=Asked)
WishT = TypeVar("WishT", bound=Wish)
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


class MakeAnswer(Protocol[Answer_co]):
    """The class of an answer in either response."""

    def __call__(
        self,
        *,
        error_code: int,
        error_message: str | None,
        resource_type: int,
        resource_name: str,
    ) -> Answer_co: ...


async def change_configs(
    asked_for: Sequence[AskedT],
    wish_of: Callable[[ConfigResource, AskedT], WishT],
    decide: Callable[[list[WishT]], Awaitable[list[ConfigAnswer]]],
    make_answer: MakeAnswer[Answer],
) -> list[Answer]:
    """Passes what can be changed on to the controller; a kind without settings is refused here."""
    answers: list[Answer] = []
    wishes: list[WishT] = []
    for asked in asked_for:
        resource = resource_of(asked.resource_type, asked.resource_name)
        if not isinstance(resource, Refused):
            wishes.append(wish_of(resource, asked))
            continue
        answers.append(
            make_answer(
                error_code=resource.error_code,
                error_message=resource.text,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
        )
    for answer in await decided(
        decide(wishes),
        lambda code, text: [ConfigAnswer(wish.resource, code, text) for wish in wishes],
    ):
        answers.append(
            make_answer(
                error_code=answer.error_code,
                error_message=None if answer.error_code is ErrorCode.NONE else answer.message,
                resource_type=type_of(answer.resource),
                resource_name=answer.resource.name,
            )
        )
    return answers
