"""Run a module as ``python -m`` does, and end it when whoever started it is gone, however that ended.

``python -m tests.emulator.tether SIGINT ministack``: the signal is what asks the module to end. Standard
input is the tether: its other end is held by the parent, and closed by the kernel even where that was killed.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from threading import Thread


def main() -> None:
    """Run the module, with the rest of the arguments as its own."""
    sign, module = signal.Signals[sys.argv[1]], sys.argv[2]

    def follow() -> None:
        sys.stdin.buffer.read()
        os.kill(os.getpid(), sign)

    Thread(target=follow, daemon=True).start()
    del sys.argv[:2]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
