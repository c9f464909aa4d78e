"""Deep Q-learning on a pole balanced by a cart; physics in numpy, several carts side by side."""
import argparse
import numpy as np
import torch
import torch.nn as nn

GRAVITY, M_CART, M_POLE, LENGTH, FORCE, DT = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02


def physics(s, a):
    x, v, th, om = s.T
    f = np.where(a == 1, FORCE, -FORCE)
    total = M_CART + M_POLE
    tmp = (f + M_POLE * LENGTH * om ** 2 * np.sin(th)) / total
    acc = (GRAVITY * np.sin(th) - np.cos(th) * tmp) / (LENGTH * (4 / 3 - M_POLE * np.cos(th) ** 2 / total))
    push = tmp - M_POLE * LENGTH * acc * np.cos(th) / total
    return np.stack([x + DT * v, v + DT * push, th + DT * om, om + DT * acc], 1)


class Memory:
    def __init__(self, size):
        self.s, self.s2 = np.zeros((size, 4), np.float32), np.zeros((size, 4), np.float32)
        self.a, self.done = np.zeros(size, np.int64), np.zeros(size, np.float32)
        self.size, self.n = size, 0

    def push(self, s, a, s2, done):
        for row in zip(s, a, s2, done):
            i = self.n % self.size
            self.s[i], self.a[i], self.s2[i], self.done[i] = row
            self.n += 1

    def sample(self, rng, batch):
        i = rng.integers(min(self.n, self.size), size=batch)
        return (torch.from_numpy(z[i]) for z in (self.s, self.a, self.s2, self.done))


def qnet(units):
    return nn.Sequential(nn.Linear(4, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(), nn.Linear(units, 2))


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--total-timesteps', type=int, default=400)
    p.add_argument('--num-envs', type=int, default=4)
    p.add_argument('--batch-size', type=int, default=64)
    p.add_argument('--hidden-units', type=int, default=64)
    p.add_argument('--updates-per-step', type=int, default=1)
    p.add_argument('--buffer-size', type=int, default=10000)
    p.add_argument('--target-every', type=int, default=50)
    args = p.parse_args()
    torch.manual_seed(1)
    rng = np.random.default_rng(1)

    online, target = qnet(args.hidden_units), qnet(args.hidden_units)
    target.load_state_dict(online.state_dict())
    moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in online.parameters()]
    memory = Memory(args.buffer_size)
    s = rng.uniform(-0.05, 0.05, (args.num_envs, 4)).astype(np.float32)
    updates, falls, losses = 0, 0, []
    for step in range(args.total_timesteps):
        eps = max(0.05, 1 - 2 * step / args.total_timesteps)
        with torch.no_grad():
            greedy = online(torch.from_numpy(s)).argmax(1).numpy()
        a = np.where(rng.random(args.num_envs) < eps, rng.integers(2, size=args.num_envs), greedy)
        s2 = physics(s, a).astype(np.float32)
        done = (np.abs(s2[:, 0]) > 2.4) | (np.abs(s2[:, 2]) > 0.21)
        memory.push(s, a, s2, done)
        falls += done.sum()
        s = np.where(done[:, None], rng.uniform(-0.05, 0.05, s2.shape), s2).astype(np.float32)
        for _ in range(args.updates_per_step):
            bs, ba, bs2, bd = memory.sample(rng, args.batch_size)
            with torch.no_grad():
                goal = (1 - bd) * (1 + 0.99 * target(bs2).max(1).values)
            loss = nn.functional.smooth_l1_loss(online(bs).gather(1, ba[:, None]).squeeze(1), goal)
            online.zero_grad()
            loss.backward()
            updates += 1
            with torch.no_grad():
                for w, (m, v) in zip(online.parameters(), moments):
                    m.lerp_(w.grad, 0.1)
                    v.lerp_(w.grad ** 2, 0.01)
                    w.sub_(1e-3 * m / (v.sqrt() + 1e-5))
            losses.append(loss.item())
            if updates % args.target_every == 0:
                target.load_state_dict(online.state_dict())
        if (step + 1) % 100 == 0:
            print(f'step {step + 1} updates {updates} falls {falls} loss {np.mean(losses[-100:]):.4f}')


if __name__ == '__main__':
    main()
