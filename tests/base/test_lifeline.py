"""A child ends when its starter does, however that ends."""

import asyncio
import os
import sys

from demarkus_base.lifeline import stdin_closed

CHILD = """
import asyncio
from demarkus_base.lifeline import stdin_closed
async def main():
    print("up", flush=True)
    await stdin_closed()
    print("end", flush=True)
asyncio.run(main())
"""

# Starts CHILD with a pipe to its standard input and sleeps; killed, it can close nothing itself.
PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
time.sleep(600)
"""


async def test_a_killed_starter_takes_its_child_along() -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, CHILD, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    assert await parent.stdout.readline() == b"up\n"
    parent.kill()
    assert await asyncio.wait_for(parent.stdout.read(), 30) == b"end\n", "the child's own last line, then end of file"
    await parent.wait()


async def test_input_before_the_end_is_thrown_away() -> None:
    read, write = os.pipe()
    waiting = asyncio.create_task(stdin_closed(read))
    os.write(write, b"noise" * 2000)
    done, _ = await asyncio.wait({waiting}, timeout=0.05)
    assert not done
    os.close(write)
    await asyncio.wait_for(waiting, 30)
    os.close(read)
