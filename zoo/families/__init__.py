"""Model families as data: sizes, facts and conversion rules. No modules are defined here."""

from zoo.families.ast import AST
from zoo.families.bert import BERT
from zoo.families.family import Family
from zoo.families.gpt import GPT
from zoo.families.llama import LLAMA
from zoo.families.swin import SWIN
from zoo.families.vit import VIT

FAMILIES: tuple[Family, ...] = (VIT, SWIN, BERT, GPT, LLAMA, AST)
