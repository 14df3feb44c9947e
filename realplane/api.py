"""Moved to stage/api.py; kept until nobody imports it from here."""

from stage.api import FIELD_MANAGER as FIELD_MANAGER
from stage.api import PlaneApi as PlaneApi
from stage.api import has_condition as has_condition
