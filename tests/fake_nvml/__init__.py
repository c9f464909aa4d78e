"""A stand-in for NVIDIA's management library, for machines without cards: see :mod:`tests.fake_nvml.script`."""
