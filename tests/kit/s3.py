"""An S3 on this machine: moto's server, and the jars with which Spark reaches it by `s3a://`.

The jars are the modules of Amazon's SDK that hadoop-aws uses, 17 MB, rather than its bundle of
600 MB; what Spark brings itself (Netty, the HTTP client) is left out.
"""

import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.jars import jars
from kit.process import ServerProcess, free_port

# The Hadoop of PySpark 4.2.0, and the SDK it was built with.
_HADOOP = "3.5.0"
_SDK = "2.35.4"
_ARTIFACTS = (
    f"org.apache.hadoop:hadoop-aws:{_HADOOP}",
    *(
        f"software.amazon.awssdk:{name}:{_SDK}"
        for name in ("s3", "s3-transfer-manager", "sts", "apache-client")
    ),
)
_LEFT_OUT = ("software.amazon.awssdk:bundle",)
_BROUGHT_BY_SPARK = ("netty-", "http", "commons-", "slf4j-")
_KEPT = ("netty-nio-client", "http-auth", "http-client-spi")


def s3_class_path() -> str:
    """For `spark.driver.extraClassPath` and `spark.executor.extraClassPath`."""
    folder = jars(*_ARTIFACTS, without=_LEFT_OUT)
    return ":".join(
        str(path)
        for path in sorted(folder.glob("*.jar"))
        if path.name.startswith(_KEPT) or not path.name.startswith(_BROUGHT_BY_SPARK)
    )


def s3_settings(endpoint: str) -> dict[str, str]:
    """Spark's settings for a server of `s3_server`."""
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": "test",
        "spark.hadoop.fs.s3a.secret.key": "test",
        # The SDK's own uploads use a Netty that is older than Spark's, and hang with it.
        "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false",
    }


@contextmanager
def s3_server(folder: Path, bucket: str) -> Iterator[str]:
    """The endpoint of a server with one empty bucket."""
    port = free_port()
    program = str(Path(sys.executable).with_name("moto_server"))
    command = [program, "-H", "127.0.0.1", "-p", str(port)]
    with ServerProcess(command, folder / "moto.out") as server:
        endpoint = f"http://127.0.0.1:{port}"
        server.wait_until(lambda: "Running on" in server.output())
        request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")
        with urllib.request.urlopen(request, timeout=30) as response:
            assert response.status == 200
        yield endpoint
