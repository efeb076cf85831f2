"""Refuses dynamic settings whose keys or certificates a listener cannot use.

`apis.dispatch` wraps AlterConfigs and IncrementalAlterConfigs. Key stores are local files, so the
broker that receives the request checks them before it forwards the request to the controller.
Clients send the settings of a broker to that broker.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol
from uuid import uuid4

from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import after
from floodmark.apis.error_answers import error_entry
from floodmark.apis.route import Handle
from floodmark.config.broker_config import BrokerConfig
from floodmark.controller.configs import (
    ConfigAlteration,
    ConfigAnswer,
    ConfigReplacement,
    ConfigStep,
    alter_configs,
    incremental_alter_configs,
)
from floodmark.controller.decision import Decision, View
from floodmark.metadata.image import CLUSTER_DEFAULT, ConfigResource
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages import response_class
from floodmark.wire.numbers import ResourceType
from floodmark.wire.schema import schema_of

UNUSABLE = ErrorCode.INVALID_REQUEST
"""The error code of Kafka 4.3 (KAFKA-13609)."""

KEY_CHANGES = frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})


_Decide = Callable[[View, ConfigResource, Any], Decision[list[ConfigAnswer]]]


class KeyCheck(Protocol):
    """Checks the listeners of this broker."""

    def why_unusable(self, config: BrokerConfig) -> str | None:
        """The reason why a listener cannot use these settings, or None."""


def checking_keys(api_key: ApiKey, handle: Handle) -> Handle:
    """Refuses resources with unusable keys and passes the others to `handle`."""
    decide = _replace if api_key is ApiKey.ALTER_CONFIGS else _alter

    def check_and_handle(context: RequestContext, request: Any) -> Any:
        check = context.services.key_check
        if check is None:
            return handle(context, request)
        reasons = [
            (resource, _why_unusable(context, check, resource, decide))
            for resource in request.resources
        ]
        refused = [(resource, reason) for resource, reason in reasons if reason is not None]
        if not refused:
            return handle(context, request)
        request = copy(request)
        request.resources = [resource for resource, reason in reasons if reason is None]

        def finish(response: Any) -> Any:
            for resource, reason in refused:
                response.responses.append(_refusal(api_key, context, resource, reason))
            return response

        if not request.resources:
            return finish(response_class(api_key)())
        return after(handle(context, request), finish)

    return check_and_handle


def _refusal(api_key: ApiKey, context: RequestContext, resource: Any, reason: str) -> Any:
    cls = next(
        f.element for f in schema_of(response_class(api_key)).fields if f.name == "responses"
    )
    return error_entry(api_key, context.api_version, cls, resource, UNUSABLE, reason)


def _why_unusable(
    context: RequestContext, check: KeyCheck, asked: Any, decide: _Decide
) -> str | None:
    services = context.services
    name, config = asked.resource_name, services.config
    if asked.resource_type != ResourceType.BROKER or name not in (
        CLUSTER_DEFAULT,
        str(services.broker_id),
    ):
        return None
    resource = ConfigResource("broker", name)
    view = View(services.image, config, lambda count: 0, uuid4)
    changed = decide(view, resource, asked).change.configs.get(resource)
    if changed is None:
        return None  # The controller refuses it, too, and says why.
    if name == CLUSTER_DEFAULT:
        return check.why_unusable(config.with_dynamic(changed, config.dynamic_broker))
    return check.why_unusable(config.with_dynamic(config.dynamic_default, changed))


def _replace(view: View, resource: ConfigResource, asked: Any) -> Decision[list[ConfigAnswer]]:
    values = {config.name: config.value for config in asked.configs}
    return alter_configs(view, [ConfigReplacement(resource, values)])


def _alter(view: View, resource: ConfigResource, asked: Any) -> Decision[list[ConfigAnswer]]:
    steps = [ConfigStep(c.name, c.config_operation, c.value) for c in asked.configs]
    return incremental_alter_configs(view, [ConfigAlteration(resource, steps)])
