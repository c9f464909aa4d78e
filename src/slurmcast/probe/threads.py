"""One thread for linear algebra.

The matrices here are small: a second BLAS thread gains little, and where the cores are busy with other work the threads
wait for one another (fourteen times slower, measured on two cores with one of them busy).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # Finding the loaded libraries takes milliseconds, so it is done once; numpy's is loaded by then.
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Within this context numpy's BLAS uses one thread."""
    limits: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limits
