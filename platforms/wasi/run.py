"""Runs a program for WASI in wasmtime: python3 platforms/wasi/run.py PROGRAM [ARGUMENT...]"""

import sys

import wasmtime
from wasmtime import component

# In the numbers of WASI.
EAGAIN = 6

program = sys.argv[1]
engine = wasmtime.Engine()
store = wasmtime.Store(engine)
wasi = wasmtime.WasiConfig()
wasi.argv = sys.argv[1:]
wasi.inherit_env()
wasi.inherit_stdin()
wasi.inherit_stdout()
wasi.inherit_stderr()
store.set_wasi(wasi)


def run_module():
    """Runs a program for preview 1."""
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    module = wasmtime.Module.from_file(engine, program)
    # Functions that Debian's C library is too old to have. They answer as those of later ones:
    # there are no threads.
    for wanted in module.imports:
        if wanted.module == "env":
            answer = EAGAIN if wanted.name == "pthread_create" else 0
            linker.define_func("env", wanted.name, wanted.type, lambda *_, answer=answer: answer)
    linker.instantiate(store, module).exports(store)["_start"](store)


def run_component():
    """Runs a program for preview 2."""
    linker = component.Linker(engine)
    linker.add_wasip2()
    whole = component.Component.from_file(engine, program)
    name = next(name for name in whole.type.exports(engine) if name.startswith("wasi:cli/run@"))
    instance = linker.instantiate(store, whole)
    interface = instance.get_export_index(store, name)
    run = instance.get_func(store, instance.get_export_index(store, "run", interface))
    if run(store).tag == "err":
        sys.exit(1)


with open(program, "rb") as file:
    # The layer, which is 0 in a module: the binary format of WebAssembly's component model.
    is_component = file.read(8)[6] == 1
try:
    run_component() if is_component else run_module()
except wasmtime.ExitTrap as end:
    sys.exit(end.code)
