"""Batch scripts and programs, all our own, for public measurements that come without their code."""

from __future__ import annotations

JOB = """#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --gres=gpu:{gpus}
#SBATCH --cpus-per-task=8
srun python train_{name}.py {arguments}
"""
HEAD = """import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
{options}args = parser.parse_args()
"""
OPTIMIZER = 'parser.add_argument("--optimizer")\nparser.add_argument("--epochs", type=int)\n'
STEPS = 'parser.add_argument("--steps", type=int)\n'

ZEUS = {
    "cifar100 shufflenetv2": """from torchvision.models import shufflenet_v2_x1_0
net = shufflenet_v2_x1_0(num_classes=100).cuda()
train_set = torchvision.datasets.CIFAR100("data", train=True, transform=flip_and_crop)
for epoch in range(args.epochs):
    for images, labels in DataLoader(train_set, args.batch_size, shuffle=True):
        loss = F.cross_entropy(net(images.cuda()), labels.cuda())
""",
    "imagenet resnet50": """from torchvision.models import resnet50
model = torch.nn.DataParallel(resnet50()).cuda()
images = torchvision.datasets.ImageFolder("imagenet/train", random_resized_crop(224))
loader = DataLoader(images, args.batch_size, shuffle=True, num_workers=8, pin_memory=True)
for epoch in range(args.epochs):
    train_one_epoch(model, loader, criterion, optimizer)
""",
    "librispeech deepspeech2": """model = DeepSpeech2(rnn_layers=5, hidden=1024).cuda()
ctc = torch.nn.CTCLoss()
speech = torchaudio.datasets.LIBRISPEECH("data", url="train-clean-100")
for epoch in range(args.epochs):
    for spectrogram, transcript in batches_by_length(speech, args.batch_size):
        loss = ctc(model(spectrogram.cuda()).log_softmax(-1), transcript)
""",
    "movielens-1m ncf": """class NeuralCF(nn.Module):
    def __init__(self, users, items):
        self.user = nn.Embedding(users, 64)
        self.item = nn.Embedding(items, 64)
ratings = negatives(pandas.read_csv("ml-1m/ratings.dat"), per_positive=4)
for epoch in range(args.epochs):
    for user, item, seen in shuffled(ratings, args.batch_size):
        loss = F.binary_cross_entropy_with_logits(model(user, item), seen)
""",
    "sentiment140 bert_base_uncased": """from transformers import AutoModel, AutoTokenizer
bert = AutoModel.from_pretrained("bert-base-uncased").cuda()
head = Classifier(bert, labels=2)
tweets = pandas.read_csv("sentiment140.csv")
for epoch in range(args.epochs):
    for batch in tokenized(tweets, args.batch_size, length=64):
        loss = head(**batch).loss
""",
    "squad bert_base_uncased": """from transformers import AutoModel, AutoTokenizer
bert = AutoModel.from_pretrained("bert-base-uncased").cuda()
head = QuestionAnswering(bert)
spans = answer_spans(load_dataset("squad"), doc_stride=128)
for epoch in range(args.epochs):
    for batch in DataLoader(spans, args.batch_size, shuffle=True):
        loss = head(**batch).loss
""",
}
"""Bodies by ``dataset network`` of the trace."""

GAVEL = {
    "ResNet-18": """net = resnet18(num_classes=10).cuda()
trainset = torchvision.datasets.CIFAR10(args.data_dir, train=True, transform=crop_flip_normalize)
for step, (inputs, targets) in zip(range(args.steps), cycle(DataLoader(trainset, args.batch_size))):
    criterion(net(inputs.cuda()), targets.cuda()).backward()
""",
    "ResNet-50": """model = models.__dict__["resnet50"]().cuda()
train_dataset = datasets.ImageFolder("imagenet/pytorch", transforms.RandomResizedCrop(224))
for step, (images, target) in zip(range(args.steps), cycle(DataLoader(train_dataset, args.batch_size, num_workers=4))):
    criterion(model(images.cuda()), target.cuda()).backward()
""",
    "Transformer": """data = torch.load("multi30k.atok.low.pt")
transformer = Transformer(data["dict"]["src"], data["dict"]["tgt"], share_projection=True).cuda()
for step, (source, target) in zip(range(args.steps), cycle(sentences(data, args.batch_size))):
    smoothed_cross_entropy(transformer(source, target[:, :-1]), target[:, 1:]).backward()
""",
    "LM": """corpus = Corpus("wikitext2")
model = nn.LSTM(200, 200, 2, dropout=0.2).cuda()
for step, (words, following) in zip(range(args.steps), cycle(bptt(batchify(corpus.train, args.batch_size), 35))):
    F.cross_entropy(decoder(model(words)), following).backward()
""",
    "Recommendation": """ratings = sparse_rows("ml-20m/pro_sg/train.csv")
autoencoder = MultiVAE([200, 600, ratings.shape[1]]).cuda()
for step, users in zip(range(args.steps), cycle(shuffled(ratings, args.batch_size))):
    multinomial_likelihood(autoencoder(users.cuda()), users).backward()
""",
    "A3C": """environment = gym.make("PongDeterministic-v4")
shared = ActorCritic(environment.action_space).share_memory()
workers = [mp.Process(target=play_and_learn, args=(shared, SharedAdam(amsgrad=True), args.steps)) for _ in range(4)]
""",
    "CycleGAN": """G_AB, G_BA = GeneratorResNet(blocks=9).cuda(), GeneratorResNet(blocks=9).cuda()
D_A, D_B = Discriminator().cuda(), Discriminator().cuda()
photos = ImageDataset("monet2photo", unaligned=True, size=256)
for step, (a, b) in zip(range(args.steps), cycle(DataLoader(photos, 1))):
    (adversarial(G_AB, G_BA, D_A, D_B, a, b) + cycle_consistency(G_AB, G_BA, a, b)).backward()
""",
}
"""Bodies by workload."""


def job(name: str, gpus: int, arguments: str) -> str:
    """A batch script that runs ``train_NAME.py`` with ``arguments``."""
    return JOB.format(name=name, gpus=gpus, arguments=arguments)


def program(body: str, options: str) -> str:
    """A training program."""
    return HEAD.format(options=options) + body
