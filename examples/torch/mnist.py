"""A convolutional network that learns to read digits: an ordinary PyTorch script.

The digits are drawn here, in seven segments with noise and shifts, so nothing is downloaded.
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SEGMENTS = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]
PLACES = {"a": (4, 6, 8, 20), "b": (6, 14, 18, 20), "c": (14, 22, 18, 20), "d": (22, 24, 8, 20),
          "e": (14, 22, 8, 10), "f": (6, 14, 8, 10), "g": (13, 15, 8, 20)}


class Digits(Dataset):
    def __init__(self, n, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(10, (n,), generator=generator)
        self.shifts = torch.randint(-3, 4, (n, 2), generator=generator)
        self.noise = torch.randn(n, 1, 28, 28, generator=generator) * 0.2

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = torch.zeros(1, 28, 28)
        for segment in SEGMENTS[int(self.labels[i])]:
            top, bottom, left, right = PLACES[segment]
            image[0, top:bottom, left:right] = 1.0
        image = torch.roll(image, self.shifts[i].tolist(), (1, 2))
        return image + self.noise[i], self.labels[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(32 * 14 * 14, 64), nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(self.dropout2(x)), dim=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()

    torch.manual_seed(1)
    device = torch.device(arguments.device)
    rows = Digits(arguments.steps * arguments.batch, seed=2)
    loader = DataLoader(rows, arguments.batch, num_workers=arguments.workers)
    model = Net().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.lr)
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        output = model(images)
        loss = F.nll_loss(output, labels)
        loss.backward()
        optimizer.step()
        right = (output.argmax(1) == labels).float().mean().item()
        print(f"step {step:3}  loss {loss.item():.6f}  right {right:.2f}")

    model.eval()
    unseen, right = Digits(4 * arguments.batch, seed=3), 0
    with torch.no_grad():
        for images, labels in DataLoader(unseen, arguments.batch):
            right += (model(images.to(device)).argmax(1).cpu() == labels).sum().item()
    print(f"of digits not seen before, {right / len(unseen):.0%} are right")


if __name__ == "__main__":
    main()
