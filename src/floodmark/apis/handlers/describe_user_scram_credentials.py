"""DescribeUserScramCredentials (key 50), version 0: which SCRAM mechanisms users have.

Never reveals salts or keys.
"""

from __future__ import annotations

from collections import Counter

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.controller.users import MECHANISM_NUMBERS
from floodmark.metadata.image import MetadataImage
from floodmark.metadata.quota_nodes import user_of, user_resource
from floodmark.security.scram_credentials import parse_credential
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

ACCESS = cluster(Operation.DESCRIBE)


def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    image = context.services.image
    if not request.users:
        described = [
            DescribeUserScramCredentialsResult(user=user, credential_infos=infos)
            for resource in image.configs
            if (user := user_of(resource)) is not None and (infos := _infos(image, user))
        ]
        return DescribeUserScramCredentialsResponse(results=described)
    times = Counter(user.name for user in request.users)
    return DescribeUserScramCredentialsResponse(
        results=[_described(image, name, count) for name, count in times.items()]
    )


def _described(image: MetadataImage, name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message="Cannot describe SCRAM credentials for the same user twice in a single "
            f"request: {name}",
        )
    infos = _infos(image, name)
    if not infos:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {name}",
        )
    return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)


def _infos(image: MetadataImage, name: str) -> list[CredentialInfo]:
    config = image.config(*user_resource(name))
    infos = []
    for number, mechanism in MECHANISM_NUMBERS.items():
        try:
            credential = parse_credential(config[mechanism])
        except (KeyError, ValueError):
            continue
        infos.append(CredentialInfo(mechanism=number, iterations=credential.iterations))
    return infos
