import sys
import numpy as np

# Principal components one after the other: power iteration and deflation, data streamed in chunks as if it
# did not fit into memory. The reconstruction error on new rows is the score.

def chunks(n_rows, n_cols, chunk_rows, basis, seed):
    rng = np.random.default_rng(seed)
    for start in range(0, n_rows, chunk_rows):
        m = min(chunk_rows, n_rows - start)
        yield rng.standard_normal((m, basis.shape[0]), dtype=np.float32) @ basis \
            + 0.3 * rng.standard_normal((m, n_cols), dtype=np.float32)

def cov_times(data, v, found):
    out = np.zeros_like(v)
    for block in data:
        proj = block @ v
        out += block.T @ proj
    for u in found:
        out -= (u @ out) * u
    return out

def main(argv):
    rows, cols, n_comp, iters, chunk = 20000, 128, 4, 20, 1000
    i = 0
    while i < len(argv):
        if argv[i] == '--rows': rows = int(argv[i + 1])
        elif argv[i] == '--cols': cols = int(argv[i + 1])
        elif argv[i] == '--components': n_comp = int(argv[i + 1])
        elif argv[i] == '--iters': iters = int(argv[i + 1])
        elif argv[i] == '--chunk': chunk = int(argv[i + 1])
        else: raise SystemExit('what is ' + argv[i] + '?')
        i += 2
    rng = np.random.default_rng(8)
    basis = rng.standard_normal((12, cols), dtype=np.float32) * np.linspace(2, 0.5, 12, dtype=np.float32)[:, None]
    data = list(chunks(rows, cols, chunk, basis, 1))
    new = np.concatenate(list(chunks(2000, cols, 1000, basis, 2)))
    found = []
    for c in range(n_comp):
        v = rng.standard_normal(cols, dtype=np.float32)
        v /= np.linalg.norm(v)
        for it in range(iters):
            v = cov_times(data, v, found)
            value = np.linalg.norm(v)
            v /= value
        found.append(v)
        P = np.stack(found)
        left = new - new @ P.T @ P
        print(f'component {c}: eigenvalue {value / rows:.3f}, error {np.square(left).mean() / np.square(new).mean():.4f}')

main(sys.argv[1:])
