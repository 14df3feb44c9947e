"""Moved to stage/waiting.py; kept until nobody imports it from here."""

from stage.waiting import NotInTime as NotInTime
from stage.waiting import eventually as eventually
from stage.waiting import gather as gather
