"""Moved to stage/processes.py; kept until nobody imports it from here."""

from stage.processes import CONTROLLER as CONTROLLER
from stage.processes import WEBHOOK as WEBHOOK
from stage.processes import Processes as Processes
