"""docs/services.md as a Java team would follow it: its dependencies and its Java code."""

import re
from pathlib import Path

from kit.jars import jars

PAGE = Path(__file__).parents[2] / "docs" / "services.md"

_DEPENDENCY = re.compile(
    r"<groupId>(.+?)</groupId><artifactId>(.+?)</artifactId><version>(.+?)</version>"
)
_PROGRAM = """{imports}

public class Page {{
    public static void main(String[] arguments) throws Exception {{
        {code}
        System.out.println("customer " + order.getCustomer());
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }}
}}
"""


def page_jars() -> Path:
    """What Maven fetches for the page's dependencies, and nothing else."""
    return jars(*(":".join(found) for found in _DEPENDENCY.findall(PAGE.read_text())))


def page_program() -> str:
    """The page's Java code, with its imports, as a program."""
    (block,) = re.findall(r"```java\n(.*?)```", PAGE.read_text(), re.DOTALL)
    first, _, code = block.strip().partition("\n")
    imports = first.removeprefix("// ")
    return _PROGRAM.format(imports=imports, code=code.strip())
