"""Runs a program for WASI in wasmtime: python3 platforms/wasi/run.py PROGRAM [ARGUMENT...]"""

import sys

import wasmtime

# In the numbers of WASI.
EAGAIN = 6

engine = wasmtime.Engine()
store = wasmtime.Store(engine)
wasi = wasmtime.WasiConfig()
wasi.argv = sys.argv[1:]
wasi.inherit_env()
wasi.inherit_stdin()
wasi.inherit_stdout()
wasi.inherit_stderr()
store.set_wasi(wasi)
linker = wasmtime.Linker(engine)
linker.define_wasi()
module = wasmtime.Module.from_file(engine, sys.argv[1])

# Functions that Debian's C library is too old to have. They answer as those of later ones: there
# are no threads.
for wanted in module.imports:
    if wanted.module == "env":
        answer = EAGAIN if wanted.name == "pthread_create" else 0
        linker.define_func("env", wanted.name, wanted.type, lambda *_, answer=answer: answer)

try:
    linker.instantiate(store, module).exports(store)["_start"](store)
except wasmtime.ExitTrap as end:
    sys.exit(end.code)
