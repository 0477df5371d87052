"""llama-server, which the package xllamacpp has as a library: ``PYTHON xllamacpp_server.py MODEL PORT``.

Runs in an environment of its own, without this project.
"""

import signal
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], int(sys.argv[2])
params.model_alias = {"smollm2"}
params.n_parallel, params.n_ctx = 1, 512
params.cpuparams.n_threads = 1
# As exact as it gets: float32 all through.
params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
server = xllamacpp.Server(params)
signal.pause()
