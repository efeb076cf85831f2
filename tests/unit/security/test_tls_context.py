"""Keys and certificates in every form that Kafka's settings allow, and what is refused."""

import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from floodmark.security.ciphers import TLS_1_3_SUITES, choose, openssl_name
from floodmark.security.errors import SecurityError
from floodmark.security.tls_context import client_context, server_tls
from floodmark.security.tls_settings import PEM, PKCS12, StoreSettings, TlsSettings
from kit.certificates import KEY_PASSWORD, STORE_PASSWORD, Authority, as_pkcs12, encrypted


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
    """The version of TLS that the two agree on."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
    ]
    waiting = list(ends)
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return ends[1].version()


def stores(authority: Authority) -> dict[str, StoreSettings]:
    plain = authority.server()
    text = plain.read_text()
    at = text.index("-----BEGIN CERTIFICATE")
    locked = encrypted(plain)
    return {
        "file": StoreSettings(PEM, str(plain)),
        "encrypted": StoreSettings(PEM, str(locked), key_password=KEY_PASSWORD),
        "inline": StoreSettings(PEM, certificates=text[at:], key=text[:at]),
        "on one line": StoreSettings(
            PEM, certificates=text[at:].replace("\n", " "), key=text[:at].replace("\n", " ")
        ),
        "pkcs12": StoreSettings(PKCS12, str(as_pkcs12(plain)), STORE_PASSWORD),
        "pkcs12 by default": StoreSettings(location=str(as_pkcs12(plain)), password=STORE_PASSWORD),
    }


FORMS = ["file", "encrypted", "inline", "on one line", "pkcs12", "pkcs12 by default"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_key_store_makes_a_listener(authority, form):
    tls = server_tls(TlsSettings(key_store=stores(authority)[form]))
    client = client_context(TlsSettings(trust_store=StoreSettings(PEM, str(authority.ca_file))))
    assert shake_hands(tls.context, client) == "TLSv1.3"
    assert tls.certificate.subject.startswith("CN=server,")


def test_trusted_certificates_may_be_text_or_a_pkcs12_store(authority):
    pem = authority.server()
    tls = server_tls(TlsSettings(key_store=StoreSettings(PEM, str(pem))))
    inline = StoreSettings(PEM, certificates=authority.ca_text)
    itself = StoreSettings(PKCS12, str(as_pkcs12(pem)), STORE_PASSWORD)
    for store in (inline, itself):
        assert shake_hands(tls.context, client_context(TlsSettings(trust_store=store)))


def refused(settings: TlsSettings) -> SecurityError:
    with pytest.raises(SecurityError) as caught:
        server_tls(settings)
    return caught.value


def test_what_cannot_be_used_is_refused_and_no_password_is_shown(authority, tmp_path):
    good = stores(authority)
    secret = "not-the-password"
    for store in (
        replace(good["encrypted"], key_password=secret),
        replace(good["encrypted"], key_password=None),
        replace(good["pkcs12"], password=secret),
        replace(good["file"], location=str(tmp_path / "missing.pem")),
        replace(good["file"], type="PKCS12"),
        replace(good["inline"], key=None),
        replace(good["inline"], certificates="nonsense"),
        StoreSettings(),
    ):
        problem = refused(TlsSettings(key_store=store))
        assert secret not in f"{problem} {problem.hint} {store!r}"


def test_a_java_key_store_is_refused_with_the_line_that_converts_it(tmp_path):
    path = tmp_path / "server.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed" + bytes(40))
    problem = refused(TlsSettings(key_store=StoreSettings(location=str(path))))
    assert f"keytool -importkeystore -srckeystore {path}" in problem.hint


def test_keys_in_memory_leave_no_file_behind(authority, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server_tls(TlsSettings(key_store=stores(authority)["inline"]))
    assert list(Path(tmp_path).iterdir()) == []


def test_suites_have_openssl_names():
    assert openssl_name("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384") == "ECDHE-RSA-AES256-GCM-SHA384"
    assert openssl_name("TLS_RSA_WITH_AES_128_CBC_SHA") == "AES128-SHA"
    suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    assert openssl_name(suite) == "ECDHE-ECDSA-CHACHA20-POLY1305"
    known = {cipher["name"] for cipher in ssl.create_default_context().get_ciphers()}
    assert {openssl_name(suite), "ECDHE-RSA-AES256-GCM-SHA384"} <= known


def test_suites_of_one_version_turn_the_other_off():
    both = ("TLSv1.2", "TLSv1.3")
    older = ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]
    assert choose(both, older) == (("TLSv1.2",), "ECDHE-RSA-AES256-GCM-SHA384")
    assert choose(both, sorted(TLS_1_3_SUITES)) == (("TLSv1.3",), None)
    for protocols, suites in [
        (both, ["TLS_AES_256_GCM_SHA384"]),
        (("TLSv1.1",), []),
        (("TLSv1.3",), older),
    ]:
        with pytest.raises(SecurityError):
            choose(protocols, suites)


def test_the_versions_of_the_settings_are_the_only_ones_spoken(authority):
    key_store = stores(authority)["file"]
    trust_store = StoreSettings(PEM, str(authority.ca_file))
    older = server_tls(TlsSettings(key_store=key_store, enabled_protocols=("TLSv1.2",)))
    client = client_context(TlsSettings(trust_store=trust_store))
    assert shake_hands(older.context, client) == "TLSv1.2"
    newer = client_context(TlsSettings(trust_store=trust_store, enabled_protocols=("TLSv1.3",)))
    with pytest.raises(ssl.SSLError):
        shake_hands(older.context, newer)
