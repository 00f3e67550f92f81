"""The grammars of log lines that the log reader knows."""

from kvcliff.readers.lines.base import Grammar
from kvcliff.readers.lines.uvicorn import UVICORN
from kvcliff.readers.lines.vllm import VLLM

#: Tried in this order. A new producer is one grammar module and its line here.
GRAMMARS: tuple[Grammar, ...] = (
    VLLM,
    UVICORN,
)
