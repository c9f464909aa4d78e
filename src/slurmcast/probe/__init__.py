"""Vectors and numbers to estimates: the prior, history, the probes, their training, their registry."""

from slurmcast.probe.examples import Example, TrainingError
from slurmcast.probe.model import Model, ModelError
from slurmcast.probe.prior import Site, prior
from slurmcast.probe.registry import Registry
from slurmcast.probe.train import TrainingResult, train

__all__ = ["Example", "Model", "ModelError", "Registry", "Site", "TrainingError", "TrainingResult", "prior", "train"]
