"""The commands that record what a finding lacks, and advice that several findings share."""

SCRAPE = (
    'while sleep 1; do echo "# scrape $(date +%s.%N)"; '
    "curl -s http://localhost:8000/metrics; done > metrics.prom"
)
CLIENT = (
    'vllm bench serve --base-url http://localhost:8000 --model "$MODEL" --dataset-name random '
    "--random-input-len 1024 --random-output-len 256 --num-prompts 500 --max-concurrency 32 "
    "--save-result --save-detailed --result-filename client.json"
)
_EXPORT = "nsys export -t sqlite -f true -o trace.sqlite trace.nsys-rep"
#: One trace answers for GPU time, copies and HBM bandwidth alike.
TRACE = (
    "nsys profile -t cuda,nvtx --cuda-graph-trace=node --gpu-metrics-devices=all "
    f'--trace-fork-before-exec=true -o trace vllm serve "$MODEL" && {_EXPORT}'
)
PREFIX_CACHE = (
    'vllm serve "$MODEL" --enable-prefix-caching --enable-logging-iteration-details 2>&1 | tee server.log'
)
MODEL_SHAPE = 'cp "$MODEL_FOLDER"/config.json RUN/'
FEWER_BYTES = (
    "Cut the bytes of a decode step: KV quantisation (FP8), a GQA/MQA model, weight quantisation, "
    "shorter context."
)
MORE_KV_ROOM = "then give KV more room (shorter contexts, FP8 KV cache, a GQA/MQA model, more memory for KV)"
