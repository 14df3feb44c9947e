"""The HTTP side of the adapter: discovery, OpenAPI, content negotiation, tables and the metrics paths."""

from metrics_adapter.server.caller_limits import CallerLimits
