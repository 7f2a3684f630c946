"""A child's tie to its starter: standard input.

Whoever starts a service with `--stop-on-stdin-eof` keeps the other end of its standard input open. When the starter
ends, also by SIGKILL, the kernel closes that end, the service reads end of file and stops by itself.
"""

import asyncio
import contextlib
import os
import threading


async def stdin_closed(file: int = 0) -> None:
    """Return when the file descriptor reaches its end; whatever is written to it is thrown away.

    A thread reads, because an event loop can't watch every kind of file. It is a daemon: it ends with the process
    when this coroutine is cancelled before the end comes.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def read_to_end() -> None:
        try:
            while os.read(file, 4096):
                pass
        except OSError:
            pass  # closed under our hands: that is an end too
        with contextlib.suppress(RuntimeError):  # the loop has ended before
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=read_to_end, name="lifeline", daemon=True).start()
    await ended.wait()
