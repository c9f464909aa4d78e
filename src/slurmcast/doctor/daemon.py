"""The doctor's checks of what slurmcastd says of itself."""

from __future__ import annotations

import time
from typing import Any

from slurmcast.client import Client, ClientError
from slurmcast.config import Config
from slurmcast.doctor.check import Check, Unanswered, once
from slurmcast.model import HOUR_S


@once
def _answer(config: Config, path: str) -> Any:
    """What the daemon says. Raises :class:`Unanswered`."""
    try:
        return Client(config).request("GET", path)
    except ClientError as error:
        raise Unanswered(str(error), "start slurmcastd") from None


def check_daemon(config: Config) -> Check:
    health = _answer(config, "/v1/health")
    detail = f"version {health['version']}, {health['submissions']} submissions in the store"
    if past := health["past_waiting"]:
        detail += f"; {past} imported scripts are still to be encoded: train when that is done"
    return Check("daemon", True, detail)


def check_encoder(config: Config) -> Check:
    health = _answer(config, "/v1/health")
    encoder, trouble = health.get("encoder"), health.get("encoder_trouble")
    if encoder is None:
        remedy = "then restart slurmcastd; until then estimates come from the prior and from jobs that ran before"
        return Check("encoder", False, f"no encoder: {trouble}", remedy)
    if trouble:
        return Check("encoder", False, trouble, "estimates do without the code until then; nothing is lost")
    return Check("encoder", True, encoder)


def check_model(config: Config) -> Check:
    health = _answer(config, "/v1/health")
    if trouble := health.get("model_trouble"):
        return Check(
            "model", False, trouble, f"until then estimates come from {health.get('model') or 'history and the prior'}"
        )
    if health.get("encoder") is None:
        return Check("model", False, "none is of use without an encoder", "see encoder")
    model = health.get("model")
    untrained = "none trained yet (slurmcast train, once jobs have finished): estimates come from history and the prior"
    return Check("model", True, str(model or untrained))


def check_late(config: Config) -> Check:
    """Whether ``lookahead`` has become EASY."""
    from slurmcast.policy.lookahead import warning  # numpy

    if config.agent.policy != "lookahead":
        return Check("late", True, f"agent.policy is {config.agent.policy}: only lookahead has a longest wait")
    jobs = _answer(config, "/v1/queue")["jobs"]
    told = warning([job["submit_time"] for job in jobs], time.time(), config.agent.longest_wait_h * HOUR_S)
    remedy = "set agent.longest_wait_h well above the site's usual waits (docs/policies.md)"
    return Check(
        "late", told is None, told or "most pending jobs have waited for less than agent.longest_wait_h", remedy
    )
