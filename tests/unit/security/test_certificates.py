"""Subjects of certificates read as Java writes them, and rules that make principals of them."""

import contextlib
from datetime import UTC, datetime

import pytest

from floodmark.security.certificate import read_certificate
from floodmark.security.errors import AuthenticationFailed, SecurityError
from floodmark.security.principal_rules import parse_rules, principal_name
from kit.certificates import COMMON_NAME, COUNTRY, EMAIL, ORGANIZATION, certificate_of


def test_the_most_specific_part_of_a_subject_comes_first():
    found = read_certificate(
        certificate_of([(COUNTRY, "DE"), (ORGANIZATION, "Wasser"), (COMMON_NAME, "alice")])
    )
    assert found.subject == "CN=alice,O=Wasser,C=DE"
    assert found.not_after == datetime(2030, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert len(found.alternative_names) == 1


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ('a,b+c"d\\e<f>g;h', 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h'),
        ("#1", "CN=\\#1"),
        ("a=b#c", "CN=a\\=b\\#c"),
        ("a\0b", "CN=a\\00b"),
        (" a ", "CN=\\ a\\ "),
        ("  a b\r ", "CN=\\ \\ a b\\\r\\ "),
        (" ", "CN=\\ "),
        ("Žofie", "CN=Žofie"),
    ],
)
def test_special_characters_are_escaped_as_java_does(name, written):
    assert read_certificate(certificate_of([(COMMON_NAME, name)])).subject == written


def test_attributes_without_a_keyword_are_written_in_hexadecimal():
    subject = read_certificate(certificate_of([(EMAIL, "a@b"), (COMMON_NAME, "x")])).subject
    assert subject == "CN=x,1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize("length", [0, 1, 20, 100, 200])
def test_a_cut_certificate_is_refused(length):
    with pytest.raises(ValueError):
        read_certificate(certificate_of([(COMMON_NAME, "x")])[:length])


def test_a_broken_certificate_is_refused_wherever_it_is_broken():
    """A certificate that an authority has signed may still be odd."""
    whole = certificate_of([(COMMON_NAME, "x"), (ORGANIZATION, "y")])
    for position in range(len(whole)):
        for value in (0x00, 0x30, 0x80, 0xFF):
            broken = whole[:position] + bytes([value]) + whole[position + 1 :]
            with contextlib.suppress(ValueError):
                read_certificate(broken)


SUBJECT = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", SUBJECT),
        ("", SUBJECT),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L", "duke@serviceusers"),
        ("RULE:^cn=(.*?),ou=.*$/$1/, RULE:^CN=([^,]*),.*$/$1/U", "DUKE"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", "duke"),
        (r"RULE:^CN=(Duke),.*$/\$$1/", "$Duke"),
        ("RULE:^CN=nobody$/x/,DEFAULT", SUBJECT),
    ],
)
def test_the_first_rule_that_matches_decides(rules, name):
    assert principal_name(parse_rules(rules), SUBJECT) == name


def test_without_a_match_there_is_no_principal():
    with pytest.raises(AuthenticationFailed, match="no rule"):
        principal_name(parse_rules("RULE:^CN=nobody$/x/"), SUBJECT)


@pytest.mark.parametrize("text", ["RULE:a/b", "default", "RULE:(/x/", "RULE:a/$1/"])
def test_rules_that_cannot_be_read_are_refused(text):
    with pytest.raises(SecurityError):
        parse_rules(text)
