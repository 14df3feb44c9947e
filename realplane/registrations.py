"""Moved to stage/registrations.py; kept until nobody imports it from here."""

from stage.registrations import ADAPTER as ADAPTER
from stage.registrations import ADAPTER_SERVICE as ADAPTER_SERVICE
from stage.registrations import NAMESPACE as NAMESPACE
from stage.registrations import never_comes as never_comes
