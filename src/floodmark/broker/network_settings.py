"""Creates the network server from the broker's settings, and applies changes to them.

Called by broker.py and dynamic_settings.py.
"""

from __future__ import annotations

from floodmark.broker.quotas import listener_rates
from floodmark.broker.tls_listeners import TlsListeners
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.checks import connection_limits
from floodmark.network.acceptor import Listener
from floodmark.network.creation_rates import CreationRates
from floodmark.network.processor import StrangerLimits
from floodmark.network.request_channel import Handler
from floodmark.network.server import NetworkServer, NetworkSettings


def bind_network(
    config: BrokerConfig, tls: TlsListeners, handler: Handler, clock: Clock
) -> NetworkServer:
    """Binds the ports. It accepts no connections before its `start`."""
    return NetworkServer(
        [
            Listener(x.name, x.security_protocol, x.host, x.port, tls.of(x.name))
            for x in config.listeners
        ],
        handler,
        NetworkSettings(
            queued_max_requests=config.get_int("queued.max.requests"),
            max_frame_bytes=config.get_int("socket.request.max.bytes"),
            max_idle_ms=config.get_int("connections.max.idle.ms"),
            backlog=config.get_int("socket.listen.backlog.size"),
            strangers=StrangerLimits(
                config.get_int("sasl.server.max.receive.size"),
                config.get_int("floodmark.authentication.timeout.ms"),
            ),
        ),
        clock,
    )


def configure_network(network: NetworkServer, config: BrokerConfig, rates: CreationRates) -> None:
    """Applies the settings that may change at runtime."""
    network.channel.resize(config.get_int("num.io.threads"))
    network.limit_connections(
        config.get_int("max.connections"),
        config.get_int("max.connections.per.ip"),
        connection_limits(config.get_str("max.connections.per.ip.overrides")),
        {x.name: config.max_connections_of(x.name) for x in config.listeners},
    )
    network.limits.rates = rates
    rates.limits_of_listeners = listener_rates(config)
