import argparse

import torch
import torch.nn as nn

from env import GridWorlds


class Policy(nn.Module):
    def __init__(self, observations, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observations, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.actor = nn.Linear(hidden, 4)
        self.critic = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.actor(h), self.critic(h).squeeze(-1)


def returns(rewards, gamma):
    out, running = [], torch.zeros_like(rewards[0])
    for r in reversed(rewards):
        running = r + gamma * running
        out.append(running)
    return torch.stack(out[::-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--horizon", type=int, default=25)
    parser.add_argument("--grid", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--entropy", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    envs = GridWorlds(args.envs, args.grid, args.seed)
    policy = Policy(3 * args.grid ** 2, args.hidden)
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-3)
    for update in range(args.updates):
        obs = torch.from_numpy(envs.reset())
        log_probs, values, entropies, rewards, alive = [], [], [], [], []
        done = torch.zeros(args.envs, dtype=torch.bool)
        for _ in range(args.horizon):
            logits, value = policy(obs)
            logp = logits.log_softmax(-1)
            action = torch.multinomial(logp.exp().detach(), 1)
            log_probs.append(logp.gather(1, action).squeeze(1))
            entropies.append(-(logp.exp() * logp).sum(1))
            values.append(value)
            alive.append(~done)
            new_obs, reward, finished = envs.step(action.squeeze(1).numpy())
            obs, done = torch.from_numpy(new_obs), torch.from_numpy(finished)
            rewards.append(torch.from_numpy(reward))
        target = returns(rewards, args.gamma)
        value, mask = torch.stack(values), torch.stack(alive).float()
        advantage = (target - value).detach()
        actor = -(torch.stack(log_probs) * advantage * mask).sum() / mask.sum()
        critic = ((target - value).square() * mask).sum() / mask.sum()
        bonus = (torch.stack(entropies) * mask).sum() / mask.sum()
        loss = actor + 0.5 * critic - args.entropy * bonus
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
        if update % 10 == 0:
            print(f"update {update} loss {loss.item():.4f} mean return {torch.stack(rewards).sum(0).mean():.3f}")


if __name__ == "__main__":
    main()
