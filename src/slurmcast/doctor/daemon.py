"""The doctor's checks of what slurmcastd says of itself."""

from __future__ import annotations

import time

from slurmcast.client import Client, ClientError
from slurmcast.config import Config
from slurmcast.doctor.check import Check
from slurmcast.extras import install
from slurmcast.model import HOUR_S


def check_daemon(config: Config) -> Check:
    try:
        health = Client(config).request("GET", "/v1/health")
    except ClientError as error:
        return Check("daemon", False, str(error), "start slurmcastd")
    detail = f"version {health['version']}, {health['submissions']} submissions in the store"
    if past := health["past_waiting"]:
        detail += f"; {past} imported scripts are still to be encoded: train when that is done"
    return Check("daemon", True, detail)


def check_encoder(config: Config) -> Check:
    try:
        health = Client(config).request("GET", "/v1/health")
    except ClientError as error:
        return Check("encoder", False, str(error), "start slurmcastd")
    encoder = health.get("encoder")
    if trouble := health.get("encoder_trouble"):
        return Check("encoder", False, trouble, "estimates do without the code until then; nothing is lost")
    remedy = f"{install('encoder')}; slurmcastd's log says what is wrong with the weights"
    return Check("encoder", bool(encoder), str(encoder or "none: estimates come from the prior alone"), remedy)


def check_model(config: Config) -> Check:
    try:
        model = Client(config).request("GET", "/v1/health").get("model")
    except ClientError as error:
        return Check("model", False, str(error), "start slurmcastd")
    untrained = "none trained yet (slurmcast train, once jobs have finished): estimates come from history and the prior"
    return Check("model", True, str(model or untrained))


def check_late(config: Config) -> Check:
    """Whether ``lookahead`` has become EASY."""
    from slurmcast.policy.lookahead import warning  # numpy

    if config.agent.policy != "lookahead":
        return Check("late", True, f"agent.policy is {config.agent.policy}: only lookahead has a longest wait")
    try:
        jobs = Client(config).request("GET", "/v1/queue")["jobs"]
    except ClientError as error:
        return Check("late", False, str(error), "start slurmcastd")
    told = warning([job["submit_time"] for job in jobs], time.time(), config.agent.longest_wait_h * HOUR_S)
    remedy = "set agent.longest_wait_h well above the site's usual waits (docs/policies.md)"
    return Check(
        "late", told is None, told or "most pending jobs have waited for less than agent.longest_wait_h", remedy
    )
