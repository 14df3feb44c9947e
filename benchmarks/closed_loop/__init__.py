"""The closed loop: the real controller in emulated fleets, beside plain HPAs (`command`)."""
