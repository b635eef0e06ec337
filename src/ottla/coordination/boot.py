"""Which start of the machine this is: monotonic time means something within one only."""

from __future__ import annotations

import os


def boot_id() -> str:
    if os.uname().sysname == "Darwin":
        return _sysctl_text(b"kern.bootsessionuuid")
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def _sysctl_text(name: bytes) -> str:
    # Here, since it costs 7 ms of a start and Linux does without.
    import ctypes
    import ctypes.util

    libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
    buffer = ctypes.create_string_buffer(128)
    size = ctypes.c_size_t(len(buffer))
    if libc.sysctlbyname(name, buffer, ctypes.byref(size), None, 0) != 0:
        raise OSError(ctypes.get_errno(), f"sysctlbyname({name.decode()}) failed")
    return buffer.value.decode()
