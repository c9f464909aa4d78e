"""The energy of each job, measured on its nodes by NVML (docs/meter.md).

Pure: ``accounting`` (readings to energy), ``run`` (one job on this node), ``record`` (what is reported), ``markers``
(what prolog and epilog dropped). At the edge: ``nvml``, ``files``, ``meter`` (all of them together, one step at a
time), ``report`` (the way to slurmcastd), ``service`` (the process).
"""
