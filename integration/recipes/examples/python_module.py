"""Uses examples/python_module.rs, and ends in assertions."""

import asyncio
import multiprocessing
import os
import time

import recipe


async def never_early(count):
    async def one(seconds):
        start = time.monotonic()
        await recipe.sleep(seconds)
        assert time.monotonic() - start >= seconds

    await asyncio.gather(*(one(n % 50 / 1000) for n in range(count)))


async def cancelled():
    try:
        await asyncio.wait_for(recipe.sleep(3600), 0.01)
    except asyncio.TimeoutError:
        return
    raise AssertionError("it slept for an hour")


async def beside_the_gil():
    task = asyncio.ensure_future(recipe.sleep(0.001))
    await asyncio.sleep(0)
    # Python's task is due within this, and its driver waits for the GIL. The other does not.
    recipe.keep_gil(0.05)
    await task


def all_of_it(count):
    asyncio.run(never_early(count))
    asyncio.run(cancelled())
    asyncio.run(beside_the_gil())
    recipe.sleep_blocking(0.001)
    return count


all_of_it(1000)
child = os.fork()
if child == 0:
    all_of_it(100)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
with multiprocessing.get_context("fork").Pool(4) as pool:
    assert pool.map(all_of_it, range(8)) == list(range(8))
all_of_it(100)
print("Python: slept in asyncio, beside the GIL, and after forks")
