"""The leaves of the benchmark in numpy, as records of the same form: leaves.py SIZE EXTENT COLUMNS RUNS."""

import sys
import time

import numpy as np

size, extent, columns, runs = map(int, sys.argv[1:])


def measure(backend, dtype, shape, kernels):
    for run in range(runs + 1):
        for name, kernel in kernels.items():
            start = time.perf_counter()
            kernel()
            seconds = time.perf_counter() - start
            if run > 0:
                print(f"record seconds {backend} 1 {dtype} {shape} numpy({name}) {seconds:e}")


def small(*shape, dtype):
    return (1 + np.arange(np.prod(shape)) % 7).astype(dtype).reshape(shape)


def nests():
    a, b, x = (small(*shape, dtype=np.float64) for shape in [(size, size), (size, size), (size,)])
    c = np.zeros_like(a)

    def pointwise():
        np.multiply(a, 2, out=c)
        np.add(c, b, out=c)

    def stencil_rows():
        c[:, 1:-1] = a[:, :-2] + 2 * a[:, 1:-1] + a[:, 2:]

    def stencil_columns():
        c[1:-1] = a[:-2] + 2 * a[1:-1] + a[2:]

    def transpose():
        c[...] = a.T

    return {
        "pointwise": pointwise,
        "row-sums": lambda: a.sum(axis=1),
        "row-maxima": lambda: a.max(axis=1),
        "inner-products": lambda: np.einsum("ij,ij->i", a, b),
        "matrix-vector": lambda: a @ x,
        "vector-matrix": lambda: x @ a,
        "stencil-rows": stencil_rows,
        "stencil-columns": stencil_columns,
        "transpose": transpose,
    }


def functions(dtype):
    a = small(size, size, dtype=dtype)
    b = np.zeros_like(a)
    names = ["exp", "log", "tanh", "sin", "cos", "sqrt"]
    kernels = {name: lambda function=getattr(np, name): function(a, out=b) for name in names}
    return kernels | {"row-sums": lambda: a.sum(axis=1), "column-sums": lambda: a.sum(axis=0)}


def products():
    n, r = extent, columns
    x, u = small(n, n, n, dtype=np.float32), small(n, r, dtype=np.float32)

    def mttkrp():
        return ((x.reshape(n * n, n) @ u).reshape(n, n, r) * u).sum(axis=1)

    def ttm_chain():
        y = (x.reshape(n * n, n) @ u).reshape(n, n, r)
        y = np.einsum("ijc,jb->ibc", y, u, optimize=True)
        return np.tensordot(u, y, axes=(0, 0))

    return {"gemm": lambda: x.reshape(n * n, n) @ u, "mttkrp": mttkrp, "ttm-chain": ttm_chain}


measure("nest", "f64", size, nests())
measure("function", "f64", size, functions(np.float64))
measure("function", "f32", size, functions(np.float32))
measure("product", "f32", f"{extent}x{columns}", products())
