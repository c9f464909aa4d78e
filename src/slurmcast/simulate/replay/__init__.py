"""Recorded work as workloads: Standard Workload Format, Gavel's traces, a site's own history."""
