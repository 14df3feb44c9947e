"""The thin shell: reads the hub and the members with deadlines, and returns observations.

Everything from outside is bounded, and becomes one printable line without credentials.
"""
