"""The principal of a certificate is the text that Java, and so Kafka, makes of its subject."""

import base64
from pathlib import Path
from random import Random

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type as StringType
from cryptography.x509.oid import NameOID

from floodmark.security.certificate import read_certificate
from kit.certificates import certificate_of_name
from kit.jars import KAFKA_4, jars
from kit.java_program import run_java
from kit.seeds import seed
from kit.tools import require_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]

SOURCE = Path(__file__).with_name("SubjectNames.java")
COUNT = 300
KINDS = (
    *(NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME),
    *(NameOID.LOCALITY_NAME, NameOID.STATE_OR_PROVINCE_NAME, NameOID.STREET_ADDRESS),
    *(NameOID.DOMAIN_COMPONENT, NameOID.USER_ID, NameOID.EMAIL_ADDRESS, NameOID.SERIAL_NUMBER),
    *(NameOID.TITLE, NameOID.GIVEN_NAME),
)
TYPES = (
    *(StringType.UTF8String, StringType.PrintableString, StringType.IA5String),
    *(StringType.T61String, StringType.BMPString, StringType.UniversalString),
    StringType.NumericString,
)
LETTERS = ' ,=+<>#;"\\/*\0\r\n\tabcXYZ019-_.@:éŽ日😀'
PLAIN = "abcXYZ019 ,=+/-.:()"


def subject(random: Random) -> x509.Name:
    parts = []
    for _ in range(random.randint(1, 4)):
        several = random.choice((1, 1, 1, 2))
        parts.append(
            x509.RelativeDistinguishedName(
                x509.NameAttribute(oid, *text_of(random)) for oid in random.sample(KINDS, several)
            )
        )
    return x509.Name(parts)


def text_of(random: Random) -> tuple[str, StringType]:
    kind = random.choice((StringType.UTF8String, *TYPES))
    letters = PLAIN if kind not in (StringType.UTF8String, StringType.BMPString) else LETTERS
    if kind is StringType.BMPString:
        letters = letters.replace("😀", "")
    if kind is StringType.NumericString:
        letters = "0123456789"
    return "".join(random.choices(letters, k=random.randint(1, 8))), kind


def test_subjects_are_written_as_java_writes_them(tmp_path):
    require_tool("java", "javac")
    random = Random(seed())
    certificates = [certificate_of_name(subject(random)) for _ in range(COUNT)]
    lines = tmp_path / "certificates.txt"
    lines.write_text("\n".join(base64.b64encode(one).decode() for one in certificates))
    libraries = jars(f"org.apache.kafka:kafka-clients:{KAFKA_4}")
    told = run_java(SOURCE, libraries, str(lines)).splitlines()
    java = [bytes.fromhex(line[1:]).decode("utf-16-be", "surrogatepass") for line in told]
    ours = [read_certificate(one).subject for one in certificates]
    different = [pair for pair in zip(ours, java, strict=True) if pair[0] != pair[1]]
    assert not different, f"{len(different)} differ: {different[:5]}"
