"""Align in a real daemon: the prior at once, the aligned estimate later, and no harm by a server that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from slurmcast.config import EncoderConfig, ProbeConfig
from slurmcast.encoder import load
from slurmcast.probe import Example, Model, Registry, train
from tests.unit.chat_server import Server, chat_server, texts
from tests.unit.daemon_harness import Daemon, daemon_in, record, submission

EXEMPLAR = """#!/bin/bash
#SBATCH --gres=gpu:1
python - <<END
import torch
from torch import nn
class Classifier(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 10))
    def forward(self, images):
        return self.layers(images.flatten(1))
class Trainer:
    def __init__(self, model, rate):
        self.model, self.optimizer = model, torch.optim.Adam(model.parameters(), lr=rate)
    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for images, labels in loader:
                loss = nn.functional.cross_entropy(self.model(images), labels)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
Trainer(Classifier(256), rate=0.001).fit(load("/data/digits"), epochs=20)
END"""
SCRIPT = """#!/bin/bash
#SBATCH --gres=gpu:1
module load julia
julia - <<END
using Flux, CUDA
h = 512; r = 3e-4; n = 45
m = Chain(Dense(3072 => h, tanh), Dense(h => 100)) |> gpu
o = Flux.setup(Momentum(r), m)
for _ in 1:n, (x, y) in eachbatch("/scratch/objects")
    g = gradient(q -> Flux.logitcrossentropy(q(x), y), m)[1]
    Flux.update!(o, m, g)
end
END"""


def in_its_style(message: str) -> str:
    """The example's code with the numbers and paths of the program: what a good chat model would make of these two."""
    example, _ = texts(message)
    for old, new in (("784", "3072"), ("256", "512"), (", 10)", ", 100)"), ("0.001", "3e-4"), ("20", "45"),
                     ("/data/digits", "/scratch/objects"), ("Adam", "SGD")):  # fmt: skip
        example = example.replace(old, new)
    return f"Here it is:\n```bash\n{example}\n```"


@pytest.fixture(scope="module")
def model() -> Model:
    """A probe that knows the exemplar's style and eleven others, and of which the script is far away."""
    encoder, draw = load(EncoderConfig()), np.random.default_rng(3)
    exemplar = encoder.encode([EXEMPLAR])[0]
    examples = []
    for style in range(12):
        centre = exemplar if style == 0 else draw.normal(size=384) / np.sqrt(384)
        second = np.exp(draw.normal())
        for n in range(6):
            vector = (centre + draw.normal(size=384) * 0.002).astype(np.float32)
            for partition, time_s in (("a100", 100.0 * second * (n + 1)), ("a6000", 150.0 * second * (n + 1))):
                examples.append(Example(f"{style} {n}", vector, {"epochs": 10.0 * (n + 1)}, 1, partition, partition,
                                        time_s * np.exp(draw.normal(0, 0.1)), time_s / 1e4))  # fmt: skip
    made = train(examples, ProbeConfig(), encoder=encoder.name).model
    assert made.tested_far
    return replace(made, territory=replace(made.territory, near=0.1, limit=0.4))


@pytest.fixture
def server() -> Iterator[Server]:
    with chat_server(in_its_style) as running:
        yield running


@pytest.fixture
def daemon(tmp_path: Path, server: Server, model: Model) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as unit:
        folder = tmp_path / "exemplars"
        folder.mkdir()
        (folder / "digits.sh").write_text(EXEMPLAR)
        unit.settings += f'\n[align]\nurl = "{server.url}"\nmodel = "m"\nexemplars = "{folder}"\ntimeout_s = 30.0\n'
        promote(unit, model)
        yield unit


def promote(daemon: Daemon, model: Model) -> None:
    registry = Registry(daemon.config.paths.models)
    registry.promote(registry.add(model))


def submit(daemon: Daemon, n: int, script: str = SCRIPT, **fields: bytes) -> None:
    """A job whose id is ``n``, seen pending by the agent as soon as it is taken in."""
    line = "sbatch " + fields.get("argv", b"train.sh").decode().replace("\0", " ").strip()
    before = daemon.ask("GET", "/v1/health")["submissions"]
    daemon.spool(f"{n}.job", submission(n, name=b"job %d" % n, script=script.encode(), **fields))
    daemon.eventually(lambda: daemon.settled(before + 1))
    known = daemon.look(record(n, name=f"job {n}", submit_line=line))[0]
    assert known["final"], "nothing waits for the chat server"


def sources(daemon: Daemon, n: int) -> set[str]:
    return {estimate["source"] for estimate in daemon.ask("GET", f"/v1/explain/{n}")["estimates"]}


def metric(daemon: Daemon, result: str) -> int:
    import http.client
    import socket

    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(daemon.config.paths.socket))
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return int(text.split(f'slurmcast_rewritings_total{{result="{result}"}} ')[1].split("\n")[0])


def test_the_prior_at_once_and_the_aligned_estimate_as_news(daemon: Daemon, server: Server, model: Model) -> None:
    go = threading.Event()
    server.chat = lambda message: in_its_style(message) if go.wait(60) else ""
    daemon.start()
    arguments = b"/home/alice/x.sh\0--token\0sesame\0"
    submit(daemon, 1, argv=arguments, environment=b"TASK=cola\0")
    assert sources(daemon, 1) == {"prior"}
    daemon.eventually(lambda: server.bodies)
    revision = daemon.ask("POST", "/v1/agent/jobs", {"jobs": [], "default": []})["revision"]
    go.set()
    daemon.eventually(lambda: sources(daemon, 1) == {"align"})
    assert daemon.ask("GET", f"/v1/agent/wait?revision={revision}&timeout=10")["revision"] != revision
    for estimate in daemon.ask("GET", "/v1/explain/1")["estimates"]:
        assert estimate["time_s"]["p90"] > 2 * estimate["time_s"]["p10"], "as wide as for any unknown script"
    assert "sesame" not in str(server.bodies) and "cola" not in str(server.bodies)

    submit(daemon, 2, argv=arguments.replace(b"sesame", b"open"))
    daemon.eventually(lambda: sources(daemon, 2) == {"align"})
    assert daemon.end() == 0
    daemon.start()
    submit(daemon, 3, argv=arguments)
    daemon.eventually(lambda: sources(daemon, 3) == {"align"})
    newer = replace(model, figures={**model.figures, "trained": "again"})
    promote(daemon, newer)  # the text is gone by now, the rewriting's vector isn't
    daemon.eventually(lambda: daemon.log.count("INFO slurmcast.estimator: model 2") == 3)
    daemon.look(record(1, name="job 1", submit_line="sbatch /home/alice/x.sh --token sesame"))
    daemon.eventually(lambda: daemon.ask("GET", "/v1/health")["waiting"] == 0)
    assert sources(daemon, 1) == {"align"}
    assert len(server.bodies) == 1, "one script is sent once"


def test_who_opts_out_keeps_his_script_here(daemon: Daemon, server: Server) -> None:
    daemon.start()
    submit(daemon, 1, request__comment=b"slurmcast:off")
    submit(daemon, 2, SCRIPT.replace("512", "640"))
    daemon.eventually(lambda: sources(daemon, 2) == {"align"})
    assert sources(daemon, 1) == {"prior"} and len(server.bodies) == 1


def test_a_known_script_is_not_sent(daemon: Daemon, server: Server) -> None:
    daemon.start()
    submit(daemon, 1, EXEMPLAR.replace("epochs=20", "epochs=30"))
    assert sources(daemon, 1) == {"probe"}
    time.sleep(0.3)
    assert not server.bodies


def test_what_a_bad_server_says_changes_nothing(daemon: Daemon, server: Server) -> None:
    daemon.start()
    bad: list[Any] = [
        lambda message: texts(message)[0],
        lambda _: "A story about a fox, 512 hens, 3072 geese, 45 ducks, 100 eggs and '/scratch/objects'. " * 5,
        lambda _: web.Response(status=400),
        lambda _: web.Response(text="no JSON"),
        lambda _: web.Response(text="[" * 100_000, content_type="application/json"),
    ]
    for n, chat in enumerate(bad, 1):
        server.chat = chat
        submit(daemon, n, SCRIPT.replace("512", str(512 + n)))
        daemon.eventually(lambda n=n: sum(metric(daemon, r) for r in ("rewritten", "unusable", "failed")) == n)
    assert [metric(daemon, result) for result in ("rewritten", "unusable", "failed")] == [1, 1, 3]
    assert all(sources(daemon, n) == {"prior"} for n in range(1, len(bad) + 1)), "even prose that passed is unknown"
    assert "Traceback" not in daemon.log


def test_a_server_that_is_away_costs_nothing(daemon: Daemon, server: Server) -> None:
    daemon.settings = daemon.settings.replace(server.url, "http://127.0.0.1:9/v1")
    daemon.start()
    submit(daemon, 1)
    daemon.eventually(lambda: metric(daemon, "failed") == 1)
    assert sources(daemon, 1) == {"prior"} and "isn't rewritten" in daemon.log


def test_a_slow_server_holds_up_neither_jobs_nor_the_end(daemon: Daemon, server: Server) -> None:
    daemon.settings += "in_flight = 1\nmax_waiting = 2\n"
    go = threading.Event()
    server.chat = lambda _: str(go.wait(60))
    daemon.start()
    for n in range(1, 7):
        submit(daemon, n, SCRIPT.replace("512", str(512 + n)))
    daemon.eventually(lambda: metric(daemon, "passed_over") == 3 and len(server.bodies) == 1)
    begun = time.monotonic()
    assert daemon.end() == 0 and time.monotonic() - begun < 15
    go.set()


def test_without_an_address_nothing_is_read_or_sent(daemon: Daemon, server: Server) -> None:
    daemon.settings = daemon.settings.replace(server.url, "")
    daemon.start()
    submit(daemon, 1)
    time.sleep(0.3)
    assert sources(daemon, 1) == {"prior"} and not server.bodies and "exemplars" not in daemon.log
