import torch
from torch.nn.functional import kl_div, log_softmax

from common import accuracy, adam_step, network, options, spirals

opt = options("--teacher")
torch.manual_seed(1)
x, _ = spirals(opt.n_train, seed=1)
teacher = network(opt.teacher_width, depth=4)
teacher.load_state_dict(torch.load(opt.teacher, weights_only=True))
student, state = network(opt.student_width, depth=2), {}
for epoch in range(opt.student_epochs):
    for rows in torch.randperm(len(x)).split(opt.batch_size):
        with torch.no_grad():
            wanted = log_softmax(teacher(x[rows]) / opt.temperature, 1)
        loss = kl_div(log_softmax(student(x[rows]) / opt.temperature, 1), wanted, log_target=True, reduction="batchmean")
        loss.backward()
        adam_step(student, state)
    print("student", epoch, f"{loss.item():.5f} {accuracy(student):.4f}")
