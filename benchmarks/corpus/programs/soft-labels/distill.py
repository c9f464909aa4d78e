"""Knowledge distillation: train a wide teacher, then a narrow student on its softened outputs."""
import argparse

import torch
from torch import nn
import torch.nn.functional as F

p = argparse.ArgumentParser()
p.add_argument('--teacher_epochs', type=int, default=3)
p.add_argument('--student_epochs', type=int, default=3)
p.add_argument('--batch_size', type=int, default=64)
p.add_argument('--n_samples', type=int, default=3000)
p.add_argument('--teacher_width', type=int, default=256)
p.add_argument('--student_width', type=int, default=32)
p.add_argument('--T', type=float, default=2.0, help='temperature')
p.add_argument('--alpha', type=float, default=0.5, help='weight of the soft loss')
FLAGS = p.parse_args()

torch.manual_seed(101)
DIM, CLASSES = 100, 12
# the labels come from a random network, so that width pays
oracle = nn.Sequential(nn.Linear(DIM, 64), nn.Tanh(), nn.Linear(64, CLASSES))
X = torch.randn(FLAGS.n_samples, DIM)
with torch.no_grad():
    Y = (oracle(X) * 4).argmax(1)


def make(width):
    return nn.Sequential(nn.Linear(DIM, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width),
                         nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, CLASSES))


def batches():
    return torch.randperm(len(X)).split(FLAGS.batch_size)


def sgd(net, lr, state):
    with torch.no_grad():
        for w in net.parameters():
            buf = state.setdefault(w, torch.zeros_like(w))
            buf.mul_(0.9).add_(w.grad)
            w.sub_(lr * buf)
            w.grad = None


teacher, student = make(FLAGS.teacher_width), make(FLAGS.student_width)

state = {}
for epoch in range(FLAGS.teacher_epochs):
    loss_sum = 0.
    for b in batches():
        if len(b) < 2:
            continue
        loss = F.cross_entropy(teacher(X[b]), Y[b])
        loss.backward()
        sgd(teacher, 0.02, state)
        loss_sum += loss.item() * len(b)
    print('teacher', epoch, 'loss', loss_sum / len(X))
teacher.eval()

state = {}
for epoch in range(FLAGS.student_epochs):
    loss_sum = 0.
    for b in batches():
        if len(b) < 2:
            continue
        with torch.no_grad():
            soft = (teacher(X[b]) / FLAGS.T).softmax(1)
        out = student(X[b])
        kd = F.kl_div((out / FLAGS.T).log_softmax(1), soft, reduction='batchmean') * FLAGS.T ** 2
        loss = FLAGS.alpha * kd + (1 - FLAGS.alpha) * F.cross_entropy(out, Y[b])
        loss.backward()
        sgd(student, 0.02, state)
        loss_sum += loss.item() * len(b)
    print('student', epoch, 'loss', loss_sum / len(X))
agree = (student.eval()(X).argmax(1) == teacher(X).argmax(1)).float().mean().item()
print('agreement of student and teacher: %.3f' % agree)
