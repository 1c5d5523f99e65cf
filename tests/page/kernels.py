#!/usr/bin/env python3
"""A profile as PyTorch's profiler writes it, of C++ kernels with long names and many copies.

    kernels.py FILE COPIES
"""
import json
import sys

ADD = ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
       "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)")
SOFTMAX = ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>"
           "(float*, float const*, int, int, int, bool const*, int, bool)")
LINE = "model.py(12): forward"
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"


def write(path, copies):
    events, at = [], 1000.0
    names = [("kernel", ADD, 3.0), ("kernel", SOFTMAX, 5.0), ("kernel", GEMM, 20.0)] * 10
    names += [("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 2.0)] * copies
    host = {"ph": "X", "pid": 0, "tid": 9}
    events.append({**host, "cat": "python_function", "name": LINE, "ts": 0.0, "dur": 900.0})
    for i, (cat, name, took) in enumerate(names, 1):
        if name == GEMM:  # with_stack: of these it is known who launched them
            events.append({**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": float(i), "dur": 0.5,
                           "args": {"correlation": i}})
        events.append({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 7, "ts": at, "dur": took,
                       "args": {"device": 1, "stream": 7, "correlation": i}})
        at += took + 1
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events}, f)


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]))
