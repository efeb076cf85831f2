"""What the broker cannot do yet is refused where it matters, and named where it does not."""

from pathlib import Path

import pytest

from floodmark.config import BROKER_SETTINGS_BY_NAME
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError
from floodmark.config.not_served import WITHOUT_EFFECT, refuse_open_doors, without_effect


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"listeners": "SASL_SSL://127.0.0.1:9093"}, "GSSAPI, which is not served: Kerberos"),
        (
            {
                "listeners": "SASL_SSL://127.0.0.1:9093",
                "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN,DIGEST-MD5",
            },
            "DIGEST-MD5",
        ),
        ({"principal.builder.class": "org.example.Builder"}, "a Java class"),
        (
            {"listener.name.x.plain.sasl.server.callback.handler.class": "org.example.Handler"},
            "a Java class",
        ),
        (
            {
                "listeners": "PLAINTEXT://127.0.0.1:9092,OUTER://:9094",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTER:SASL_PLAINTEXT",
            },
            "listener OUTER asks for the SASL mechanism GSSAPI",
        ),
        (
            {"authorizer.class.name": "org.example.Authorizer"},
            "a Java class that cannot run here",
        ),
        ({"zookeeper.set.acl": "true"}, "only the brokers may write"),
        (
            {"zookeeper.set.acl": "true", "zookeeper.ssl.client.enable": "true"},
            "cannot tell who they are",
        ),
        ({"floodmark.zookeeper.digest.username": "x"}, "a name without colons and a password"),
        (
            {
                "floodmark.zookeeper.digest.username": "x:y",
                "floodmark.zookeeper.digest.password": "z",
            },
            "a name without colons and a password",
        ),
        ({"zookeeper.ssl.crl.enable": "true"}, "revoked certificates"),
        ({"zookeeper.ssl.ocsp.enable": "true"}, "revoked certificates"),
        ({"create.topic.policy.class.name": "org.example.Policy"}, "a Java policy"),
    ],
)
def test_a_door_that_was_meant_to_be_closed_is_not_left_open(properties, why):
    with pytest.raises(ConfigError, match=why) as caught:
        refuse_open_doors(BrokerConfig.load(properties))
    assert caught.value.hint


def test_protocols_that_no_listener_uses_are_no_reason_to_refuse():
    refuse_open_doors(
        BrokerConfig.load({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL"})
    )


def test_settings_that_do_nothing_yet_are_named():
    config = BrokerConfig.load(
        {
            "zookeeper.connect": "localhost:2181",
            "log.preallocate": "true",
            "listener.name.plaintext.ssl.protocol": "TLSv1.3",
            "num.partitions": "3",
        }
    )
    assert without_effect(config) == [
        "listener.name.plaintext.ssl.protocol",
        "log.preallocate",
    ]


def test_every_setting_without_effect_exists_and_is_on_the_page_about_differences():
    page = Path(__file__).parents[3].joinpath("docs", "compatibility.md").read_text()
    for entry in WITHOUT_EFFECT:
        assert f"`{entry}`" in page
        assert any(
            name.startswith(entry[:-1]) if entry.endswith("*") else name == entry
            for name in BROKER_SETTINGS_BY_NAME
        ), entry
