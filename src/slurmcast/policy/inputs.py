"""What a site adds to a policy: a cap on power, and what energy costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slurmcast.policy.base import Floats, Moment, Policy
from slurmcast.policy.power import PowerCapped, PowerRoom
from slurmcast.policy.price import Priced
from slurmcast.series import Series


@dataclass(frozen=True)
class Inputs:
    """None where the site has none."""

    power_cap_w: float | None = None
    gpu_power_w: Floats | None = None
    """Mean power of one busy GPU of each type, (m,); needed with a cap."""
    price: Series | None = None

    def around(self, policy: Policy) -> Policy:
        """``policy`` under them."""
        if self.price is not None:
            policy = Priced(policy, self.price)
        if self.power_cap_w is not None and self.gpu_power_w is not None:
            policy = PowerCapped(policy, self.power_cap_w, self.gpu_power_w)
        return policy

    def room(self, moment: Moment, take: Callable[[int, int], bool]) -> PowerRoom | None:
        """What is left below the cap, beside the room that ``take`` uses up; None without a cap."""
        if self.power_cap_w is None or self.gpu_power_w is None:
            return None
        return PowerRoom(moment, self.power_cap_w, self.gpu_power_w, take)


NO_INPUTS = Inputs()
