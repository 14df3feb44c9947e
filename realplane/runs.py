"""Moved to stage/runs.py; kept until nobody imports it from here."""

from stage.runs import ProcessId as ProcessId
from stage.runs import Run as Run
from stage.runs import reap as reap
from stage.runs import runs_folder as runs_folder
