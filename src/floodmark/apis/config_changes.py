"""Shared code of AlterConfigs and IncrementalAlterConfigs: one response per resource."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from floodmark.apis.config_resources import Refused, resource_of, type_of
from floodmark.apis.context import Services
from floodmark.apis.controller_outcomes import decided
from floodmark.controller.configs import ConfigAnswer
from floodmark.metadata.image import ConfigResource
from floodmark.wire.errors import ErrorCode


class Named(Protocol):
    """A setting in either request."""

    @property
    def name(self) -> str: ...


class Asked(Protocol):
    """A resource in either request."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...
    @property
    def configs(self) -> Sequence[Named]: ...


class Wish(Protocol):
    """A requested change to a resource, for the controller."""

    @property
    def resource(self) -> ConfigResource: ...


AskedT = TypeVar("AskedT", bound=Asked)
WishT = TypeVar("WishT", bound=Wish)
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


class MakeAnswer(Protocol[Answer_co]):
    """The class of a result in either response."""

    def __call__(
        self,
        *,
        error_code: int,
        error_message: str | None,
        resource_type: int,
        resource_name: str,
    ) -> Answer_co: ...


async def change_configs(
    services: Services,
    asked_for: Sequence[AskedT],
    wish_of: Callable[[ConfigResource, AskedT], WishT],
    decide: Callable[[list[WishT]], Awaitable[list[ConfigAnswer]]],
    make_answer: MakeAnswer[Answer],
) -> list[Answer]:
    """Forwards valid changes to the controller, and refuses invalid ones here."""
    times = times_asked(asked_for)
    answers: list[Answer] = []
    wishes: list[WishT] = []
    for asked in asked_for:
        resource = refuse_repeated(asked, times) or resource_of(
            asked.resource_type, asked.resource_name, services.broker_id, services.image
        )
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


def times_asked(asked_for: Sequence[Asked]) -> Counter[tuple[int, str]]:
    return Counter((asked.resource_type, asked.resource_name) for asked in asked_for)


def refuse_repeated(asked: Asked, times: Mapping[tuple[int, str], int]) -> Refused | None:
    if times[asked.resource_type, asked.resource_name] > 1:
        return Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    if len({config.name for config in asked.configs}) != len(asked.configs):
        return Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    return None
