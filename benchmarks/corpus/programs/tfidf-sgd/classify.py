"""Sort generated support tickets by department: TF-IDF of words and word pairs, linear model by SGD."""
import argparse
import random
import string

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import f1_score
from sklearn.utils import shuffle

rand = random.Random(77)


def word():
    return "".join(rand.choice(string.ascii_lowercase) for _ in range(rand.randint(3, 9)))


COMMON = [word() for _ in range(600)]
DEPARTMENTS = {name: [word() for _ in range(80)] for name in ("billing", "network", "storage", "login", "licences")}


def ticket(department, length):
    special = DEPARTMENTS[department]
    return " ".join(rand.choice(special) if rand.random() < 0.08 else rand.choice(COMMON) for _ in range(length))


def make(count, length):
    names = [rand.choice(list(DEPARTMENTS)) for _ in range(count)]
    return [ticket(name, length) for name in names], names


def run(args):
    texts, labels = make(args.documents, args.words)
    test_texts, test_labels = make(500, args.words)
    vectorizer = TfidfVectorizer(ngram_range=(1, args.ngrams), sublinear_tf=True, min_df=2)
    X, X_test = vectorizer.fit_transform(texts), vectorizer.transform(test_texts)
    print(X.shape[0], "documents,", X.shape[1], "terms")
    clf = SGDClassifier(loss="log_loss", alpha=1e-5, random_state=0)
    for epoch in range(args.epochs):
        Xs, ys = shuffle(X, labels, random_state=epoch)
        clf.partial_fit(Xs, ys, classes=sorted(DEPARTMENTS))
        if (epoch + 1) % 10 == 0 or epoch + 1 == args.epochs:
            print("epoch", epoch + 1, "macro F1", round(f1_score(test_labels, clf.predict(X_test), average="macro"), 4))


cli = argparse.ArgumentParser()
cli.add_argument("-e", "--epochs", type=int, default=20)
cli.add_argument("-d", "--documents", type=int, default=2000)
cli.add_argument("-w", "--words", type=int, default=60)
cli.add_argument("-g", "--ngrams", type=int, default=2)
run(cli.parse_args())
