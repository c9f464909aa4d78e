# Proximal policy optimisation for Atari. Most of the time goes to the emulators on the CPU.
import gymnasium as gym
import torch
import torch.nn as nn
import tyro
from dataclasses import dataclass


@dataclass
class Args:
    env: str = "ALE/Breakout-v5"
    total_timesteps: int = 2_000_000
    num_envs: int = 8
    num_steps: int = 128
    minibatches: int = 4
    update_epochs: int = 4
    gamma: float = 0.99
    clip: float = 0.1


class Agent(nn.Module):
    def __init__(self, actions):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3),
                                 nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU())
        self.pi, self.v = nn.Linear(512, actions), nn.Linear(512, 1)

    def forward(self, x):
        h = self.net(x / 255.0)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


args = tyro.cli(Args)
envs = gym.make_vec(args.env, args.num_envs)
agent = Agent(envs.single_action_space.n).cuda()
opt = torch.optim.Adam(agent.parameters(), 2.5e-4, eps=1e-5)
obs, _ = envs.reset()
batch = args.num_envs * args.num_steps
for update in range(args.total_timesteps // batch):
    store = []
    for _ in range(args.num_steps):
        with torch.no_grad():
            dist, value = agent(torch.as_tensor(obs).float().cuda())
        act = dist.sample()
        nxt, rew, done, trunc, _ = envs.step(act.cpu().numpy())
        store.append((torch.as_tensor(obs), act, dist.log_prob(act), value, torch.as_tensor(rew), torch.as_tensor(done)))
        obs = nxt
    from returns import gae

    o, a, lp, adv, ret = gae(store, args.gamma)
    for _ in range(args.update_epochs):
        for idx in torch.randperm(batch).chunk(args.minibatches):
            dist, v = agent(o[idx].float().cuda())
            ratio = (dist.log_prob(a[idx]) - lp[idx]).exp()
            loss = -torch.min(ratio * adv[idx], ratio.clamp(1 - args.clip, 1 + args.clip) * adv[idx]).mean() + 0.5 * (v - ret[idx]).square().mean()
            opt.zero_grad(); loss.backward(); opt.step()
