"""NVIDIA's management library as a few small classes; its errors as three of ours.

The library stays open only while it is used: an open one keeps the driver from being unloaded and a GPU from being
reset.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

from slurmcast.meter.accounting import Reading

T = TypeVar("T")

J_PER_MJ = 1e-3
W_PER_MW = 1e-3


class NvmlError(Exception):
    """NVML can't say; the message names the call and NVML's own words."""


class NotSupported(NvmlError):
    """This card doesn't tell that."""


class DriverGone(NvmlError):
    """There is no driver, or it was loaded anew: NVML must be opened again."""


_KINDS: dict[int, type[NvmlError]] = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: NotSupported,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: NotSupported,
    pynvml.NVML_ERROR_UNINITIALIZED: DriverGone,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: DriverGone,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: DriverGone,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: DriverGone,
}


def _call(function: Callable[..., T], *arguments: Any) -> T:
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        code = getattr(error, "value", pynvml.NVML_ERROR_UNKNOWN)
        raise _KINDS.get(code, NvmlError)(f"{function.__name__}: {error}") from None


class Gpu:
    """One whole card."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.uuid: str = _call(pynvml.nvmlDeviceGetUUID, handle)
        self._unknown: set[Callable[..., Any]] = set()

    @property
    def split(self) -> bool:
        """Whether it is split into MIG devices."""
        mode: list[int] | None = self._ask(pynvml.nvmlDeviceGetMigMode)
        return mode is not None and mode[0] == 1

    @property
    def minor(self) -> int | None:
        """N of its /dev/nvidiaN."""
        minor: int | None = self._ask(pynvml.nvmlDeviceGetMinorNumber)
        return minor

    def read(self, at: float) -> Reading:
        """What it shows now. What it can't say is None; raises :class:`DriverGone`."""
        counter = self._ask(pynvml.nvmlDeviceGetTotalEnergyConsumption)
        power, memory = self._ask(pynvml.nvmlDeviceGetPowerUsage), self._ask(pynvml.nvmlDeviceGetMemoryInfo)
        rates = self._ask(pynvml.nvmlDeviceGetUtilizationRates)
        return Reading(
            at=at,
            power_w=None if power is None else power * W_PER_MW,
            counter_j=None if counter is None else counter * J_PER_MJ,
            memory_bytes=None if memory is None else int(memory.used),
            utilisation=None if rates is None else rates.gpu / 100,
        )

    def _ask(self, function: Callable[..., Any]) -> Any:
        if function in self._unknown:
            return None
        try:
            return _call(function, self._handle)
        except NotSupported:
            self._unknown.add(function)  # asked once: the card won't learn it
            return None
        except DriverGone:
            raise
        except NvmlError:
            return None


class Nvml:
    """The library. ``reloads`` counts how often the driver went away while it was open."""

    def __init__(self) -> None:
        self._open = False
        self._gpus: dict[str, Gpu | None] = {}
        self.reloads = 0

    def find(self, word: str) -> Gpu | None:
        """The card that Slurm means by a number or UUID; None for a MIG device.

        Raises :class:`NvmlError`: there is no such card, or it doesn't answer.
        """
        self._ensure_open()
        if word not in self._gpus:
            self._gpus[word] = self._find(word)
        return self._gpus[word]

    def _find(self, word: str) -> Gpu | None:
        if word.startswith("MIG-"):
            return None
        if word.startswith("GPU-"):
            return Gpu(_call(pynvml.nvmlDeviceGetHandleByUUID, word))
        broken: NvmlError | None = None
        for index in range(_call(pynvml.nvmlDeviceGetCount)):
            try:  # one broken card must not hide the others
                gpu = Gpu(_call(pynvml.nvmlDeviceGetHandleByIndex, index))
                # The driver numbers device files in an order of its own, so NVML's index isn't the same thing.
                if str(index if gpu.minor is None else gpu.minor) == word:
                    return gpu
            except DriverGone:
                raise
            except NvmlError as error:
                broken = error
        raise broken or NvmlError(f"no GPU {word} is known to NVML")

    def read(self, uuid: str, at: float) -> Reading:
        """A card's reading; with nothing in it where the card doesn't answer. Raises :class:`DriverGone`."""
        try:
            gpu = self.find(uuid)
        except DriverGone:
            self.close(gone=True)
            raise
        except NvmlError:
            return Reading(at)
        if gpu is None:
            return Reading(at)
        try:
            return gpu.read(at)
        except DriverGone:
            self.close(gone=True)
            raise

    def _ensure_open(self) -> None:
        if not self._open:
            _call(pynvml.nvmlInit)
            self._open = True

    def close(self, gone: bool = False) -> None:
        """Let go of the driver; the next question opens it again."""
        if self._open:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
            self.reloads += gone
        self._open, self._gpus = False, {}
