"""Runs a program to its end while the test serves on its event loop."""

import asyncio


async def run(program: list[str], timeout_seconds: float = 90) -> str:
    """Run to the end while the provider serves on this loop."""
    process = await asyncio.create_subprocess_exec(
        *program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), timeout_seconds)
    finally:
        if process.returncode is None:
            process.kill()
    text = output.decode(errors="replace")
    assert process.returncode == 0, text[-6000:]
    return text
