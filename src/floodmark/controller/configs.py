"""Decisions: topic, broker and group settings, as a whole (AlterConfigs) or step by step
(IncrementalAlterConfigs). PURE. Refusals use Kafka 4.3's wording.

`apis` has already refused resources and settings that a request names twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from floodmark.config import (
    BROKER_SETTINGS_BY_NAME,
    GROUP_SETTINGS_BY_NAME,
    TOPIC_SETTINGS_BY_NAME,
    ConfigError,
    Setting,
    ValueType,
    validate_dynamic_overrides,
    validate_group_overrides,
    validate_thread_counts,
    validate_topic_overrides,
)
from floodmark.config.broker_config import base_name
from floodmark.config.values import format_value
from floodmark.controller.decision import Decision, Refusal, View
from floodmark.controller.topic_names import why_invalid
from floodmark.controller.topics import config_operation
from floodmark.metadata.image import CLUSTER_DEFAULT, ConfigResource, ImageChange
from floodmark.metadata.store import Operation
from floodmark.wire.errors import ErrorCode
from floodmark.wire.numbers import ConfigOperation

MAX_VALUE_LENGTH = 32767
"""Values are sent as strings with a 16-bit length."""


@dataclass(frozen=True, slots=True)
class ConfigStep:
    """One step of an incremental change.

    `operation` is the number from the request, known or not.
    """

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class ConfigReplacement:
    """A resource's complete new settings: anything not named is removed."""

    resource: ConfigResource
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    resource: ConfigResource
    steps: Sequence[ConfigStep]


@dataclass(frozen=True, slots=True)
class ConfigAnswer:
    resource: ConfigResource
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_configs(
    view: View, requests: Sequence[ConfigReplacement], *, validate_only: bool = False
) -> Decision[list[ConfigAnswer]]:
    outcomes: list[tuple[ConfigResource, dict[str, str] | Refusal]] = []
    for request in requests:
        missing = [name for name, value in request.configs.items() if value is None]
        if missing:
            outcomes.append((request.resource, _no_nulls(missing)))
            continue
        configs = {name: str(value) for name, value in request.configs.items()}
        outcomes.append((request.resource, _check(view, request.resource, configs) or configs))
    return _decide(view, outcomes, validate_only)


def incremental_alter_configs(
    view: View, requests: Sequence[ConfigAlteration], *, validate_only: bool = False
) -> Decision[list[ConfigAnswer]]:
    outcomes: list[tuple[ConfigResource, dict[str, str] | Refusal]] = []
    for request in requests:
        configs = _take_steps(view, request)
        if isinstance(configs, dict):
            configs = _check(view, request.resource, configs) or configs
        outcomes.append((request.resource, configs))
    return _decide(view, outcomes, validate_only)


def _decide(
    view: View,
    outcomes: Sequence[tuple[ConfigResource, dict[str, str] | Refusal]],
    validate_only: bool,
) -> Decision[list[ConfigAnswer]]:
    answers: list[ConfigAnswer] = []
    operations: list[Operation] = []
    changes: dict[ConfigResource, Mapping[str, str] | None] = {}
    for resource, outcome in outcomes:
        if isinstance(outcome, Refusal):
            answers.append(ConfigAnswer(resource, *outcome))
            continue
        answers.append(ConfigAnswer(resource))
        if not validate_only:
            changes[resource] = outcome
            operations.append(config_operation(view.image, resource, outcome))
    return Decision(answers, operations, ImageChange(configs=changes))


# -- the steps of an incremental change -----------------------------------------------------------


def _take_steps(view: View, request: ConfigAlteration) -> dict[str, str] | Refusal:
    missing = [
        step.name
        for step in request.steps
        if step.value is None and step.operation != ConfigOperation.DELETE
    ]
    if missing:
        return _no_nulls(missing)
    configs = dict(view.image.config(*request.resource))
    for step in request.steps:
        refusal = _take_step(view, request.resource, configs, step)
        if refusal is not None:
            return refusal
    return configs


def _take_step(
    view: View, resource: ConfigResource, configs: dict[str, str], step: ConfigStep
) -> Refusal | None:
    if step.operation == ConfigOperation.DELETE:
        configs.pop(step.name, None)
    elif step.operation == ConfigOperation.SET:
        configs[step.name] = step.value or ""
    elif step.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        operation = ConfigOperation(step.operation)
        setting = _setting(resource, step.name)
        if setting is None or setting.type is not ValueType.LIST:
            return Refusal(
                ErrorCode.INVALID_CONFIG,
                f"Can't {operation.name} to key {step.name} because its type is not LIST.",
            )
        items = _current_items(view, resource, configs, setting)
        given = dict.fromkeys((step.value or "").split(","))
        if operation is ConfigOperation.APPEND:
            items = list(dict.fromkeys(items) | given)
        else:
            items = [item for item in items if item not in given]
        configs[step.name] = ",".join(items)
    else:
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"Unknown operation type {step.operation} for {step.name}"
        )
    return None


def _current_items(
    view: View, resource: ConfigResource, configs: Mapping[str, str], setting: Setting
) -> list[str]:
    """A list that is not set yet starts from the value in force."""
    text = configs.get(setting.name)
    if text is None:
        in_force = (
            view.config.topic_defaults[setting.name]
            if resource.kind == "topic"
            else view.config.get(setting.name)
        )
        text = format_value(in_force)
    return [item.strip() for item in text.split(",")] if text else []


def _setting(resource: ConfigResource, name: str) -> Setting | None:
    if resource.kind == "topic":
        return TOPIC_SETTINGS_BY_NAME.get(name)
    if resource.kind == "group":
        return GROUP_SETTINGS_BY_NAME.get(name)
    return BROKER_SETTINGS_BY_NAME.get(base_name(name))


# -- checks ---------------------------------------------------------------------------------------


def _check(view: View, resource: ConfigResource, configs: Mapping[str, str]) -> Refusal | None:
    too_long = [name for name, value in configs.items() if len(value) > MAX_VALUE_LENGTH]
    if too_long:
        return Refusal(
            ErrorCode.INVALID_CONFIG,
            f"The configuration value of {too_long[0]} exceeds the maximum length of "
            f"{MAX_VALUE_LENGTH}",
        )
    try:
        if resource.kind == "topic":
            return _check_topic(view, resource.name, configs)
        if resource.kind == "broker":
            return _check_broker(view, resource.name, configs)
        if resource.kind == "group":
            return _check_group(view, resource.name, configs)
    except ConfigError as error:
        # Kafka responds this way for brokers, and keeps doing so for its clients (KAFKA-13609).
        is_broker = resource.kind == "broker"
        code = ErrorCode.INVALID_REQUEST if is_broker else ErrorCode.INVALID_CONFIG
        return Refusal(code, str(error))
    return Refusal(
        ErrorCode.INVALID_REQUEST, f"Settings of a {resource.kind} cannot be changed here."
    )


def _check_topic(view: View, name: str, configs: Mapping[str, str]) -> Refusal | None:
    """As in Kafka, an invalid value is reported even if the topic does not exist."""
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    reason = why_invalid(name)
    if reason is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    validate_topic_overrides(configs, view.config.topic_defaults)
    if name not in view.image.topics:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return None


def _check_broker(view: View, name: str, configs: Mapping[str, str]) -> Refusal | None:
    if name != CLUSTER_DEFAULT and not name.isdecimal():
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"Unable to parse broker name as a base 10 number: {name}"
        )
    if name != CLUSTER_DEFAULT and int(name) not in view.image.brokers:
        return Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")
    validate_dynamic_overrides(configs, per_broker=name != CLUSTER_DEFAULT)
    _refuse_open_secrets(view, name, configs)
    # Built only to validate: it raises if the new values conflict with the others.
    if name == CLUSTER_DEFAULT:
        changed = view.config.with_dynamic(configs, view.config.dynamic_broker)
    elif int(name) == view.config.node_id:
        changed = view.config.with_dynamic(view.config.dynamic_default, configs)
    else:
        return None
    validate_thread_counts(view.config, changed)
    return None


def _refuse_open_secrets(view: View, name: str, configs: Mapping[str, str]) -> None:
    """Raises ConfigError for a new password if everybody who reaches ZooKeeper could read it.

    Kafka refuses it as well unless it can encrypt it (password.encoder.secret).
    """
    if not view.config.get_optional_str("zookeeper.connect"):
        return
    if view.config.get_bool("zookeeper.set.acl"):
        return
    before = view.image.config("broker", name)
    for key, value in configs.items():
        setting = BROKER_SETTINGS_BY_NAME.get(base_name(key))
        if setting and setting.type is ValueType.PASSWORD and before.get(key) != value:
            raise ConfigError(
                f"{key} cannot be stored: everybody who reaches ZooKeeper could read it. Set "
                "zookeeper.set.acl=true, or set it in the broker's properties file",
                name=key,
            )


def _check_group(view: View, name: str, configs: Mapping[str, str]) -> Refusal | None:
    """The group need not exist: it may have settings before its first member."""
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    validate_group_overrides(configs, view.config)
    return None


def _no_nulls(names: Sequence[str]) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(names)}")
