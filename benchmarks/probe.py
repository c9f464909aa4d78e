"""The probes on measured runs: the trace of Zeus (NSDI '23), six workloads on four GPU types at full power.

One script per workload from the templates below, the batch size beside it, each GPU type as a partition, time and
energy of one epoch. Every model is trained anew for each fold and asked for jobs that it hasn't seen:

* ``random``: one row (a configuration on one GPU type) in ten is left out,
* ``config``: one configuration in ten, on all GPU types,
* ``program``: one workload in six. So few workloads can't prove any interval, so estimates are unknown; the figures are
  then of the bare predictions, which nothing else uses.

``python benchmarks/probe.py [KIND...]``; the paper's probe takes half an hour. The last line is JSON.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurmcast.config import EncoderConfig, ProbeConfig
from slurmcast.encoder import EncoderError, load
from slurmcast.probe import Example, Model, train
from slurmcast.probe.estimator import Query
from slurmcast.probe.examples import merged
from slurmcast.probe.figures import better, truths

DATA = Path(os.environ.get("SLURMCAST_DATA", Path(__file__).parents[2] / "shared" / "data")) / "zeus"
GPU_TYPES = ("a40", "p100", "rtx6000", "v100")
SPLITS = ("random", "config", "program")
MARGIN = 0.1
PROGRAMS = {
    "shufflenetv2": "from torchvision.models import shufflenet_v2_x1_0\n"
    "net = shufflenet_v2_x1_0(num_classes=100).cuda()\n"
    "train_set = torchvision.datasets.CIFAR100('data', train=True, transform=flip_and_crop)\n",
    "resnet50": "from torchvision.models import resnet50\nmodel = resnet50().cuda()\n"
    "images = torchvision.datasets.ImageFolder('imagenet/train', random_resized_crop(224))\n",
    "bert_base_uncased": "from transformers import AutoModel, AutoTokenizer\n"
    "bert = AutoModel.from_pretrained('bert-base-uncased').cuda()\n",
    "ncf": "class NeuralCF(nn.Module):\n    def __init__(self, users, items):\n"
    "        self.user = nn.Embedding(users, 64)\n"
    "        self.item = nn.Embedding(items, 64)\nratings = negatives(pandas.read_csv('ml-1m/ratings.dat'))\n",
    "deepspeech2": "model = DeepSpeech2(rnn_layers=5, hidden=1024)\nctc = torch.nn.CTCLoss()\n"
    "speech = torchaudio.datasets.LIBRISPEECH('data', url='train-clean-100')\n",
}
DATASETS = {
    "squad": "head = QuestionAnswering(bert)\nspans = answer_spans(load_dataset('squad'), max_length=384)\n",
    "sentiment140": "head = Classifier(bert, labels=2)\ntweets = pandas.read_csv('sentiment140.csv')\n",
}


@dataclass(frozen=True)
class Row:
    """One measured configuration on one GPU type."""

    program: str
    config: str
    text: str
    example: Example


def script(row: dict[str, str]) -> str:
    """A batch script for the row's work."""
    return (
        f"#!/bin/bash\n#SBATCH --gres=gpu:1\npython - --batch-size {row['batch_size']} <<EOF\nimport torch\n"
        + PROGRAMS[row["network"]]
        + DATASETS.get(row["dataset"], "")
        + f"optimizer = torch.optim.{row['optimizer'].capitalize()}(parameters)\nEOF\n"
    )


def rows(encode: Callable[[list[str]], NDArray[np.float32]]) -> list[Row]:
    """All rows at each GPU's highest power limit."""
    found: list[tuple[dict[str, str], str]] = []
    for gpu_type in GPU_TYPES:
        with (DATA / f"summary_power_{gpu_type}.csv").open(newline="") as file:
            table = list(csv.DictReader(file))
        most = max(int(row["power_limit"]) for row in table)
        found += [(row, gpu_type) for row in table if int(row["power_limit"]) == most]
    texts = [script(row) for row, _ in found]
    return [_row(row, gpu, text, v) for (row, gpu), text, v in zip(found, texts, encode(texts), strict=True)]


def _row(row: dict[str, str], gpu_type: str, text: str, vector: NDArray[np.float32]) -> Row:
    program = f"{row['dataset']} {row['network']}"
    config = f"{program} {row['batch_size']} {row['optimizer']}"
    time_s, power_w = float(row["time_per_epoch"]), float(row["average_power"])
    numbers = {"epochs": 1.0, "batch_size": float(row["batch_size"])}
    energy_kwh = time_s * power_w / 3.6e6
    return Row(program, config, text, Example(config, vector, numbers, 1, gpu_type, gpu_type, time_s, energy_kwh))


def folds(table: Sequence[Row], split: str, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Masks of what is left out, in turn."""
    groups = [{"random": str(n), "config": row.config, "program": row.program}[split] for n, row in enumerate(table)]
    names = sorted(set(groups))
    order = np.random.default_rng(seed).permutation(len(names))
    fold = {names[k]: position % (len(names) if split == "program" else 10) for position, k in enumerate(order)}
    label = np.array([fold[group] for group in groups])
    for number in range(label.max() + 1):
        yield label == number


@dataclass
class Guesses:
    """Logarithmic predictions (n, 2) of time and energy, and whether the interval held (NaN: there was none)."""

    middle: NDArray[np.float64]
    inside: NDArray[np.float64] | None = None
    """None where the model has no intervals."""


def ours(kind: str) -> Callable[[list[Example], list[Example]], Guesses]:
    """The probe of that kind."""

    def guess(known: list[Example], asked: list[Example]) -> Guesses:
        model = train(known, ProbeConfig(kind=kind), encoder="benchmark").model  # type: ignore[arg-type]
        bare = model.estimator.predict([Query(e.vector, e.numbers, e.gpus, e.type) for e in asked])
        return Guesses(np.column_stack([bare.log_time, bare.log_energy]), np.array([_held(model, e) for e in asked]))

    return guess


def _held(model: Model, asked: Example) -> tuple[float, float]:
    (estimate,) = model.predict(asked.vector, asked.numbers, {asked.partition: asked.gpus})
    pairs = ((estimate.time_s, asked.time_s), (estimate.energy_kwh, asked.energy_kwh))
    held = [float(i.p10 <= truth <= i.p90) if i is not None and truth is not None else np.nan for i, truth in pairs]
    return held[0], held[1]


def mean(known: list[Example], asked: list[Example]) -> Guesses:
    """The geometric mean of the GPU type."""
    logs = {t: np.mean([_logs(e) for e in known if e.type == t], axis=0) for t in {e.type for e in asked}}
    return Guesses(np.array([logs[e.type] for e in asked]))


def nearest5(known: list[Example], asked: list[Example]) -> Guesses:
    """The geometric mean of the five jobs on that GPU type whose scripts (with arguments) are most alike."""
    middle = []
    for e in asked:
        near = sorted((k for k in known if k.type == e.type), key=lambda k: float(np.sum((k.vector - e.vector) ** 2)))
        middle.append(np.mean([_logs(k) for k in near[:5]], axis=0))
    return Guesses(np.array(middle))


def _logs(example: Example) -> NDArray[np.float64]:
    return np.log([example.time_s, example.energy_kwh or np.nan])


def results(table: Sequence[Row], name: str, split: str, guess: Callable[..., Guesses]) -> list[dict[str, Any]]:
    """Figures of one model on one split, for time and energy."""
    middle, inside = np.full((len(table), 2), np.nan), np.full((len(table), 2), np.nan)
    begun = time.monotonic()
    has_intervals = name not in BASELINES
    for out in folds(table, split, 0):
        part = [[row.example for row, o in zip(table, out, strict=True) if o == side] for side in (False, True)]
        found = guess(*part)
        middle[out] = found.middle
        if found.inside is not None:
            inside[out] = found.inside
    samples = merged(row.example for row in table)
    truth = truths(samples)
    return [
        {
            "data": f"zeus_{target}",
            "split": split,
            "model": name,
            **_errors(truth[target], middle[:, column]),
            "coverage80": _share(inside[:, column]) if has_intervals else None,
            "unknown": _share(np.isnan(inside[:, column]).astype(float)) if has_intervals else None,
            "best_partition": _best(better(samples, truth[target], middle[:, column], MARGIN), "right"),
            "best_partition_always_one": _best(better(samples, truth[target], middle[:, column], MARGIN), "always"),
            "seconds": round(time.monotonic() - begun, 1),
        }
        for column, target in enumerate(("time", "energy"))
    ]


def _share(values: NDArray[np.float64]) -> float | None:
    return round(float(np.nanmean(values)), 3) if np.isfinite(values).any() else None


def _errors(truth: NDArray[np.float64], middle: NDArray[np.float64]) -> dict[str, Any]:
    ape = np.abs(np.expm1(middle - truth))
    ranks = [np.argsort(np.argsort(values)) for values in (truth, middle)]
    return {
        "spearman": round(float(np.corrcoef(ranks[0], ranks[1])[0, 1]), 4),
        "median_ape": round(float(np.median(ape)), 4),
        "p90_ape": round(float(np.quantile(ape, 0.9)), 4),
    }


def _best(pairs: dict[str, Any], key: str) -> float:
    return round(float(np.average([p[key] for p in pairs.values()], weights=[p["keys"] for p in pairs.values()])), 3)


BASELINES: dict[str, Callable[[list[Example], list[Example]], Guesses]] = {"mean": mean, "knn5": nearest5}


def main(kinds: Sequence[str]) -> dict[str, Any]:
    """Run everything; a line for each result on standard output."""
    if not DATA.is_dir():
        return {"skipped": f"{DATA} is absent; set SLURMCAST_DATA to the folder that holds zeus/"}
    try:
        table = rows(load(EncoderConfig()).encode)
    except EncoderError as error:
        return {"skipped": str(error)}
    models: dict[str, Callable[..., Guesses]] = {kind: ours(kind) for kind in kinds}
    found = []
    for split in SPLITS:
        for name, guess in {**models, **BASELINES}.items():
            for result in results(table, name, split, guess):
                print(json.dumps(result), flush=True)
                found.append(result)
    return {"rows": len(table), "results": found}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:] or ["size+ratio"])))
