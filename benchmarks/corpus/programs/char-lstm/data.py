import random


def prose(n_chars, seed):
    """Sentences of made-up words; each word is likely to be followed by one of three others."""
    r = random.Random(seed)
    syllables = [c + v for c in "bdfglmnprst" for v in "aeiou"]
    words = ["".join(r.choices(syllables, k=r.randint(1, 3))) for _ in range(200)]
    follow = {w: r.sample(words, 3) for w in words}
    out, word = [], r.choice(words)
    length = 0
    while length < n_chars:
        out.append(word)
        length += len(word) + 1
        word = r.choice(follow[word] if r.random() < 0.8 else words)
        if r.random() < 0.1:
            out[-1] += "."
            length += 1
    return " ".join(out)[:n_chars]
