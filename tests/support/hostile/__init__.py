"""A member that sends what it likes, hostile objects for the hub, and a program that measures latencies."""
