"""Uses src/lib.rs by what UniFFI has written, and ends in assertions."""

import asyncio
import threading
import time
from datetime import timedelta

import recipe


async def one(milliseconds):
    start = time.monotonic()
    await recipe.sleep(timedelta(milliseconds=milliseconds))
    assert time.monotonic() - start >= milliseconds / 1000


async def sleeps():
    await asyncio.gather(*(one(n % 50) for n in range(500)))
    try:
        await asyncio.wait_for(recipe.sleep(timedelta(hours=1)), 0.01)
    except asyncio.TimeoutError:
        return
    raise AssertionError("it slept for an hour")


class Listener(recipe.Listener):
    def __init__(self):
        self.ticks = threading.Semaphore(0)

    def tick(self):
        self.ticks.release()


asyncio.run(sleeps())
listener = Listener()
start = time.monotonic()
ticks = recipe.Ticks.every(timedelta(milliseconds=10), listener)
for _ in range(3):
    listener.ticks.acquire()
# The first comes at once.
assert time.monotonic() - start >= 0.02
ticks.cancel()
print("UniFFI: slept in asyncio, and called back")
