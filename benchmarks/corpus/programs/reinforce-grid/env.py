import numpy as np


class GridWorlds:
    """Many grids at once: walk to the goal, avoid the pits. Observations are one-hot planes, flattened."""

    MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])

    def __init__(self, count, size, seed):
        self.count, self.size = count, size
        self.rng = np.random.default_rng(seed)
        self.rows = np.arange(count)
        self.reset()

    def reset(self):
        cells = np.argsort(self.rng.random((self.count, self.size ** 2)), axis=1)[:, :5]
        places = np.stack([cells // self.size, cells % self.size], axis=-1)
        self.agent, self.goal, self.pits = places[:, 0].copy(), places[:, 1], places[:, 2:]
        self.done = np.zeros(self.count, dtype=bool)
        return self.observe()

    def observe(self):
        planes = np.zeros((self.count, 3, self.size, self.size), dtype=np.float32)
        planes[self.rows, 0, self.agent[:, 0], self.agent[:, 1]] = 1
        planes[self.rows, 1, self.goal[:, 0], self.goal[:, 1]] = 1
        for k in range(self.pits.shape[1]):
            planes[self.rows, 2, self.pits[:, k, 0], self.pits[:, k, 1]] = 1
        return planes.reshape(self.count, -1)

    def step(self, action):
        moved = np.clip(self.agent + self.MOVES[action], 0, self.size - 1)
        self.agent = np.where(self.done[:, None], self.agent, moved)
        at_goal = (self.agent == self.goal).all(1)
        in_pit = (self.agent[:, None] == self.pits).all(2).any(1)
        reward = np.where(self.done, 0.0, at_goal * 1.0 - in_pit * 1.0 - 0.02).astype(np.float32)
        self.done |= at_goal | in_pit
        return self.observe(), reward, self.done.copy()
