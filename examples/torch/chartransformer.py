"""A transformer that learns to predict the next character of a text: an ordinary PyTorch script."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                  nn.Linear(4 * width, width), nn.Dropout(dropout))
        self.dropout = nn.Dropout(dropout)

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = self.dropout(scores.masked_fill(future, float("-inf")).softmax(-1))
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Model(nn.Module):
    def __init__(self, symbols, length, width, heads, layers, dropout=0.1):
        super().__init__()
        self.symbol, self.place = nn.Embedding(symbols, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.symbol(tokens) + self.place(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="?", default=__file__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()

    torch.manual_seed(1)
    with open(arguments.text, encoding="utf-8") as file:
        text = file.read()
    symbols = sorted(set(text))
    place = {symbol: i for i, symbol in enumerate(symbols)}
    data = torch.tensor([place[symbol] for symbol in text], device=arguments.device)
    model = Model(len(symbols), arguments.length, arguments.width, 4, arguments.layers)
    model.to(arguments.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    for step in range(arguments.steps):
        starts = torch.randint(len(data) - arguments.length - 1, (arguments.batch,))
        rows = torch.stack([data[s:s + arguments.length + 1] for s in starts.tolist()])
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step:3}  loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
