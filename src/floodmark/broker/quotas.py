"""Creates a broker's quotas and keeps them up to date with the image. Created by broker.py."""

from __future__ import annotations

from collections.abc import Callable

from floodmark.apis.client_quotas import ClientQuotas
from floodmark.clock import Clock
from floodmark.config import BrokerConfig
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import Delta, MetadataImage
from floodmark.metadata.quota_nodes import KINDS, quotas_in
from floodmark.network.creation_rates import BROKER, CreationRates
from floodmark.security.quota_entities import QuotaLimits
from floodmark.security.rates import Windows

UNLIMITED = 2**31 - 1


def make_quotas(
    metadata: MetadataCache,
    clock: Clock,
    creation_rates: CreationRates,
    changed: Callable[[], None],
) -> ClientQuotas:
    config = metadata.config
    quotas = ClientQuotas(
        clock, windows(config, "quota"), windows(config, "controller.quota"), changed
    )

    def image_changed(image: MetadataImage, delta: Delta) -> None:
        if any(resource.kind in KINDS for resource in delta.changed_configs):
            limits = QuotaLimits(quotas_in(image.configs))
            quotas.use(limits)
            creation_rates.limit_of_address = limits.connection_rate

    metadata.subscribe(image_changed)
    return quotas


def windows(config: BrokerConfig, prefix: str) -> Windows:
    samples, seconds = (config.get_int(f"{prefix}.window.{x}") for x in ("num", "size.seconds"))
    return Windows(samples, seconds * 1000)


def listener_rates(config: BrokerConfig) -> dict[str, float]:
    """`max.connection.creation.rate` of the broker and its listeners, where set."""
    name = "max.connection.creation.rate"
    rates = {BROKER: config.get_int(name)}
    for listener in config.listeners:
        own = config.for_listener(listener.name, name)
        if isinstance(own, int) and own != rates[BROKER]:
            rates[listener.name] = own
    return {name: float(rate) for name, rate in rates.items() if rate < UNLIMITED}
