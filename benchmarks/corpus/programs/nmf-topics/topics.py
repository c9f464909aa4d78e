import sys
import warnings

import numpy as np
from scipy import sparse
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

# Non-negative matrix factorisation of word counts, several random starts.
# topics.py TRUE_TOPICS DOCS VOCAB RANK SWEEPS STARTS
warnings.simplefilter("ignore", ConvergenceWarning)
true_topics, docs, vocab, rank, sweeps, starts = map(int, sys.argv[1:])

rng = np.random.default_rng(0)
topic_words = rng.dirichlet(np.full(vocab, 0.03), size=true_topics)
doc_topics = rng.dirichlet(np.full(true_topics, 0.2), size=docs)
counts = sparse.csr_matrix(rng.poisson(120 * doc_topics @ topic_words).astype(np.float64))
print(f"{docs} documents, {counts.nnz / docs:.1f} different words each")

errors = []
for start in range(starts):
    model = NMF(rank, init="random", solver="mu", tol=0, max_iter=sweeps, random_state=start)
    model.fit(counts)
    errors.append(model.reconstruction_err_)
    purity = (model.components_ / model.components_.sum(1, keepdims=True)).max(1).mean()
    print(f"start {start}: error {errors[-1]:.3f}, heaviest word of a topic {purity:.3f}")
print(f"best {min(errors):.3f}")
