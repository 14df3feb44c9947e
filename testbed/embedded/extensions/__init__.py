"""Calls to other servers: admission webhooks and aggregated APIs."""
