"""The simulator: the agent's policies on made-up, recorded or replayed work, without a cluster."""
