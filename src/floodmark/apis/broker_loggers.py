"""Log levels of this process, exposed as settings of a BROKER_LOGGER resource.

As in Kafka, they apply immediately, are not stored, and use Kafka's level names. A package's
logger, such as `floodmark.network`, covers all its modules without a level of their own. Called by
`handlers.describe_configs` and `handlers.incremental_alter_configs`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from floodmark.apis.config_changes import refuse_repeated
from floodmark.apis.config_resources import Refused
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_configs import DescribeConfigsResourceResult
from floodmark.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
)
from floodmark.wire.numbers import ConfigOperation

ROOT: Final = "root"
DYNAMIC_BROKER_LOGGER_CONFIG: Final = 6

LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}

logger = logging.getLogger(__name__)


def describe_loggers(wanted: Collection[str] | None) -> list[DescribeConfigsResourceResult]:
    """Each with its own level, or that of the nearest ancestor that has one."""
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=_name_of(_logger(name).getEffectiveLevel()),
            config_source=DYNAMIC_BROKER_LOGGER_CONFIG,
        )
        for name in _names()
        if wanted is None or name in wanted
    ]


def alter_loggers(
    broker_id: int,
    resources: Sequence[AlterConfigsResource],
    times: Mapping[tuple[int, str], int],
    *,
    validate_only: bool,
) -> list[AlterConfigsResourceResponse]:
    answers = []
    for resource in resources:
        refused = refuse_repeated(resource, times) or _why_not(broker_id, resource)
        if refused is None and not validate_only:
            for config in resource.configs:
                _set(config)
        answers.append(
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if refused is None else refused.error_code,
                error_message=None if refused is None else refused.text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return answers


def _set(config: AlterableConfig) -> None:
    level = logging.NOTSET if config.value is None else LEVELS.get(config.value, logging.NOTSET)
    if config.config_operation == ConfigOperation.DELETE:
        level = logging.NOTSET
    _logger(config.name).setLevel(level)
    logger.warning(
        "a client set the level of logger %s to %s",
        config.name,
        config.value if level else "its parent's",
    )


def _why_not(broker_id: int, resource: AlterConfigsResource) -> Refused | None:
    name = resource.resource_name
    if not name.lstrip("+-").isdecimal():
        text = f"Node id must be an integer, but it is: {name}"
        return Refused(ErrorCode.INVALID_REQUEST, text)
    if int(name) != broker_id:
        text = f"Unexpected node id. Expected {broker_id}, but received {name}"
        return Refused(ErrorCode.INVALID_REQUEST, text)
    missing = [c.name for c in resource.configs if c.value is None and not _deletes(c)]
    if missing:
        text = f"Null value not supported for : {', '.join(missing)}"
        return Refused(ErrorCode.INVALID_REQUEST, text)
    known = set(_names())
    refusals = (_why_not_set(config, known) for config in resource.configs)
    return next((refused for refused in refusals if refused is not None), None)


def _why_not_set(config: AlterableConfig, known: Collection[str]) -> Refused | None:
    operation = config.config_operation
    if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        name = ConfigOperation(operation).name
        text = f"{name} operation is not allowed for the BROKER_LOGGER resource"
        return Refused(ErrorCode.INVALID_REQUEST, text)
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        text = f"Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource"
        return Refused(ErrorCode.INVALID_REQUEST, text)
    if config.name not in known:
        return Refused(ErrorCode.INVALID_CONFIG, f"Logger {config.name} does not exist!")
    if _deletes(config):
        if config.name == ROOT:
            text = f"Removing the log level of the {ROOT} logger is not allowed"
            return Refused(ErrorCode.INVALID_REQUEST, text)
    elif config.value not in LEVELS:
        text = (
            f"Cannot set the log level of {config.name} to {config.value} as it is not a supported "
            f"log level. Valid log levels are {', '.join(sorted(LEVELS))}"
        )
        return Refused(ErrorCode.INVALID_CONFIG, text)
    return None


def _deletes(config: AlterableConfig) -> bool:
    return config.config_operation == ConfigOperation.DELETE


def _names() -> list[str]:
    """All existing loggers and the packages above them."""
    return [ROOT, *sorted(logging.root.manager.loggerDict)]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _name_of(level: int) -> str:
    """Kafka's level that passes the same lines."""
    return next((name for name, number in LEVELS.items() if level <= number), "FATAL")
