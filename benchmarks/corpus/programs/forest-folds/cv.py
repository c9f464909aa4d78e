"""Random forest on generated tabular data, scored by stratified k-fold cross-validation."""
import os

import click
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

JOBS = int(os.environ.get("OMP_NUM_THREADS", 1))


@click.command()
@click.option("--trees", default=100, show_default=True)
@click.option("--samples", default=3000, show_default=True)
@click.option("--features", default=20, show_default=True)
@click.option("--folds", default=3, show_default=True)
@click.option("--max-depth", default=None, type=int)
def main(trees, samples, features, folds, max_depth):
    X, y = make_classification(
        n_samples=samples, n_features=features, n_informative=features // 2, flip_y=0.05, random_state=0
    )
    scores = []
    for fold, (train, test) in enumerate(StratifiedKFold(folds, shuffle=True, random_state=1).split(X, y)):
        forest = RandomForestClassifier(trees, max_depth=max_depth, n_jobs=JOBS, random_state=fold)
        forest.fit(X[train], y[train])
        scores.append(roc_auc_score(y[test], forest.predict_proba(X[test])[:, 1]))
        print(f"fold {fold} AUC {scores[-1]:.4f}", flush=True)
    print(f"AUC {np.mean(scores):.4f} +- {np.std(scores):.4f}")


if __name__ == "__main__":
    main()
