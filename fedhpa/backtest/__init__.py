"""Objects over recorded days: recordings, a model of the workload, runs and reports.

Other packages import from here. `fedhpa.backtest.result` has what a backtest returns.
"""

from fedhpa.backtest.comparison import (
    PRESENT,
    UNSERVED,
    Candidate,
    compare,
    options_for,
    price_of,
    run_of,
    runs_of,
    scaling_object,
)
from fedhpa.backtest.model import SHARED, TIED, Model, Options, measured_start, model_of
from fedhpa.backtest.recorded import RECORDED, Fidelity, censored_part, fidelity, recorded_run
from fedhpa.backtest.recording import (
    ClusterSeries,
    Recording,
    decode_recording,
    encode_recording,
    metric_keys,
    recorded_spec,
)
from fedhpa.backtest.simulation import BoundsChange, simulate
from fedhpa.backtest.suggestion import Claim, Suggestion, suggest
from fedhpa.backtest.variants import FIELDS, Variant, parse_variants, variant_name, varied

__all__ = [
    "FIELDS",
    "PRESENT",
    "RECORDED",
    "SHARED",
    "TIED",
    "UNSERVED",
    "BoundsChange",
    "Candidate",
    "Claim",
    "ClusterSeries",
    "Fidelity",
    "Model",
    "Options",
    "Recording",
    "Suggestion",
    "Variant",
    "censored_part",
    "compare",
    "decode_recording",
    "encode_recording",
    "fidelity",
    "measured_start",
    "metric_keys",
    "model_of",
    "options_for",
    "parse_variants",
    "price_of",
    "recorded_run",
    "recorded_spec",
    "run_of",
    "runs_of",
    "scaling_object",
    "simulate",
    "suggest",
    "variant_name",
    "varied",
]
