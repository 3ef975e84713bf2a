"""A TreeLSTM that learns the sign of random expressions: an ordinary PyTorch script whose graph is
another one each step (Tai, Socher, Manning: Improved Semantic Representations From Tree-Structured
Long Short-Term Memory Networks, ACL 2015, the child-sum form)."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SYMBOLS = {"+": 0, "-": 1, "*": 2}


def expression(depth, source):
    """A number, or (operator, left, right)."""
    if depth == 0 or source.random() < 0.2:
        return source.randint(-9, 9)
    return source.choice("+-*"), expression(depth - 1, source), expression(depth - 1, source)


def value(tree):
    if isinstance(tree, int):
        return tree
    left, right = value(tree[1]), value(tree[2])
    return left + right if tree[0] == "+" else left - right if tree[0] == "-" else left * right


class TreeLstm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.number, self.symbol = nn.Linear(1, width), nn.Embedding(len(SYMBOLS), width)
        self.iou_x, self.iou_h = nn.Linear(width, 3 * width), nn.Linear(width, 3 * width, bias=False)
        self.f_x, self.f_h = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.sign = nn.Linear(width, 3)

    def node(self, x, children):
        h_sum = sum((h for h, _ in children), torch.zeros(1, self.width, device=x.device))
        i, o, u = (self.iou_x(x) + self.iou_h(h_sum)).chunk(3, dim=1)
        c = torch.sigmoid(i) * torch.tanh(u)
        for h_child, c_child in children:
            c = c + torch.sigmoid(self.f_x(x) + self.f_h(h_child)) * c_child
        return torch.sigmoid(o) * torch.tanh(c), c

    def state(self, tree, device):
        if isinstance(tree, int):
            return self.node(self.number(torch.tensor([[tree / 9]], device=device)), [])
        children = [self.state(child, device) for child in tree[1:]]
        return self.node(self.symbol(torch.tensor([SYMBOLS[tree[0]]], device=device)), children)

    def forward(self, tree, device):
        return self.sign(self.state(tree, device)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()

    torch.manual_seed(1)
    source, device = random.Random(2), torch.device(arguments.device)
    model = TreeLstm(arguments.width).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(arguments.steps):
        trees = [expression(arguments.depth, source) for _ in range(arguments.batch)]
        signs = torch.tensor([(value(t) > 0) - (value(t) < 0) + 1 for t in trees], device=device)
        loss = F.cross_entropy(torch.cat([model(t, device) for t in trees]), signs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step:3}  loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
