"""The grammars of log lines that the log reader knows."""

from kvcliff.readers.lines.base import Grammar
from kvcliff.readers.lines.llamacpp import LLAMACPP
from kvcliff.readers.lines.lmcache import LMCACHE
from kvcliff.readers.lines.lmdeploy import LMDEPLOY
from kvcliff.readers.lines.mooncake import MOONCAKE
from kvcliff.readers.lines.ollama import OLLAMA
from kvcliff.readers.lines.sglang import SGLANG
from kvcliff.readers.lines.tensorrt_llm import TENSORRT_LLM
from kvcliff.readers.lines.tgi import TGI
from kvcliff.readers.lines.uvicorn import UVICORN
from kvcliff.readers.lines.vllm import VLLM

#: Tried in this order. A new producer is one grammar module and its line here.
GRAMMARS: tuple[Grammar, ...] = (
    VLLM,
    UVICORN,
    LMCACHE,
    SGLANG,
    TENSORRT_LLM,
    LMDEPLOY,
    TGI,
    MOONCAKE,
    LLAMACPP,
    OLLAMA,
)
