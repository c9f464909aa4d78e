"""The way home: records from the outbox to slurmcastd, each until it is taken. The daemon takes each once."""

from __future__ import annotations

import logging

from slurmcast.client import Client, ClientError
from slurmcast.config import Config
from slurmcast.meter.files import Outbox

log = logging.getLogger("slurmcast.meter")

BATCH = 100
FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 600.0


class Reporter:
    """Sends what lies in the outbox."""

    def __init__(self, config: Config, outbox: Outbox) -> None:
        self._client, self._outbox = Client(config), outbox
        self._wait_s = FIRST_WAIT_S

    def send(self) -> float:
        """Hand over what waits; after how many seconds to try again: longer each time the daemon can't be reached."""
        while waiting := list(self._outbox.waiting(BATCH)):
            try:
                answer = self._client.request("POST", "/v1/energy", {"records": [record for _, record in waiting]})
            except ClientError as error:
                log.warning("%d records wait, slurmcastd doesn't take them: %s", len(waiting), error)
                wait_s, self._wait_s = self._wait_s, min(2 * self._wait_s, LONGEST_WAIT_S)
                return wait_s
            refused = answer["refused"]
            for place, (path, _) in enumerate(waiting):
                if str(place) in refused:
                    log.error("%s is refused and set aside: %s", path.name, refused[str(place)])
                    self._outbox.refuse(path)
                else:
                    path.unlink(missing_ok=True)
        self._wait_s = FIRST_WAIT_S
        return FIRST_WAIT_S
